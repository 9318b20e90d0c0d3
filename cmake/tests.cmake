# One test program per folder; each x_test.cc stands beside the code it tests.
include(GoogleTest)

function(ropeline_test name)
  cmake_parse_arguments(TEST "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${TEST_SOURCES})
  target_link_libraries(${name} PRIVATE ${TEST_LIBRARIES} GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE ROPELINE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST)
endfunction()

ropeline_test(kernels_test
  SOURCES kernels/angle_table_test.cc kernels/angle_ways_test.cc kernels/chunk_select_test.cc kernels/convert_test.cc kernels/decode_attention_test.cc kernels/kv_cache_test.cc
          kernels/kv_evict_test.cc kernels/kv_format_error_test.cc kernels/kv_memory_test.cc kernels/kv_reschedule_test.cc kernels/mat_mul_test.cc kernels/mat_vec_test.cc kernels/rerotation_error_test.cc
          kernels/residual_test.cc kernels/rms_norm_test.cc kernels/sampling_test.cc kernels/swiglu_test.cc
          kernels/placement_test.cc kernels/prefill_attention_test.cc kernels/roofline_test.cc kernels/rope_frequencies_test.cc kernels/qk_rotation_test.cc kernels/row_name_test.cc
          kernels/score_bias_test.cc kernels/score_tile_test.cc kernels/stream_test.cc
          kernels/unrotated_keys_test.cc kernels/weight_dtype_test.cc
  LIBRARIES ropeline_kernels)

ropeline_test(topology_test
  SOURCES bench/cgroup_test.cc bench/cpu_list_test.cc bench/host_identity_test.cc bench/oddities_test.cc
          bench/topology_test.cc
  LIBRARIES ropeline_topology fmt::fmt)

if(ROPELINE_BUILD_BENCH)
  ropeline_test(bench_test
    SOURCES bench/bench_all_test.cc bench/buffer_test.cc bench/crew_test.cc bench/interference_test.cc bench/options_test.cc
            bench/peer/ggml_library_test.cc bench/results_file_test.cc bench/runner_test.cc bench/weight_ring_test.cc
    LIBRARIES ropeline_bench)
  target_compile_definitions(bench_test PRIVATE ROPELINE_BENCH_ALL="$<TARGET_FILE:bench_all>")
  add_dependencies(bench_test bench_all)

  # A whole model in double beside the executed step: optimised.
  ropeline_test(step_test
    SOURCES bench/step/step_choice_test.cc bench/step/step_cost_test.cc bench/step/step_plan_test.cc bench/step/step_rows_test.cc bench/step/step_run_test.cc
    LIBRARIES ropeline_bench)

  # Libraries that ggml_library_test.cc gives ggml's names.
  function(ropeline_fake_ggml name definition interface score)
    add_library(${name} MODULE bench/peer/fake_ggml_init.cc ${ARGN})
    target_link_libraries(${name} PRIVATE ropeline_options)
    target_compile_definitions(${name} PRIVATE FAKE_GGML_INTERFACE=${interface} FAKE_GGML_SCORE=${score})
    target_compile_definitions(bench_test PRIVATE ${definition}="$<TARGET_FILE:${name}>")
    add_dependencies(bench_test ${name})
  endfunction()
  ropeline_fake_ggml(fake_ggml ROPELINE_FAKE_GGML 2 1 bench/peer/fake_ggml.cc)
  ropeline_fake_ggml(fake_ggml_better ROPELINE_FAKE_GGML_BETTER 2 7 bench/peer/fake_ggml.cc)
  ropeline_fake_ggml(fake_ggml_for_others ROPELINE_FAKE_GGML_FOR_OTHERS 2 0 bench/peer/fake_ggml.cc)
  ropeline_fake_ggml(fake_ggml_old ROPELINE_FAKE_GGML_OLD 1 1 bench/peer/fake_ggml.cc)
  ropeline_fake_ggml(fake_ggml_part ROPELINE_FAKE_GGML_PART 2 1)

  # Against a llama.cpp build that ROPELINE_GGML names when it runs; skipped without.
  ropeline_test(peer_test
    SOURCES bench/peer/cross_check_angle_test.cc bench/peer/cross_check_attention.cc
            bench/peer/cross_check_attention_test.cc bench/peer/cross_check_blocks_test.cc
            bench/peer/cross_check_rope_test.cc bench/peer/cross_check_tensor_test.cc bench/peer/cross_check_weights_test.cc
    LIBRARIES ropeline_bench)
  # They repeat another program's roundings.
  set_source_files_properties(bench/peer/cross_check_angle_test.cc bench/peer/cross_check_attention.cc
    bench/peer/cross_check_rope_test.cc PROPERTIES COMPILE_OPTIONS -ffp-contract=off)
endif()

ropeline_test(model_test
  SOURCES model/bad_config_test.cc model/compare_peers_test.cc model/compare_test.cc model/context_ways_test.cc model/crossover_test.cc
          model/encoding_share_test.cc model/engine/bad_engine_run_test.cc
          model/engine/calibrate_test.cc model/engine/curve_test.cc
          model/engine/engine_model_test.cc model/engine/read_engine_run_test.cc
          model/engine/sweeps_test.cc model/gguf_file_test.cc model/gguf_weights_test.cc
          model/hf_families_test.cc model/kernel_rates_test.cc model/kernel_terms_test.cc
          model/kv_layout_test.cc model/law_test.cc model/machine_test.cc model/measured_encoding_test.cc
          model/predict_kinds_test.cc model/predict_test.cc model/presets_test.cc
          model/published_configs_test.cc model/published_gguf_test.cc model/read_gguf_test.cc
          model/read_hf_config_test.cc model/read_params_json_test.cc model/reshape_test.cc
          model/rotation_upkeep_test.cc model/safetensors_test.cc model/results_rows_test.cc model/small_operations_test.cc model/step_validation_test.cc model/stored_weights_test.cc
          model/thread_advice_test.cc model/units_test.cc model/ways_to_pay_test.cc model/weight_format_test.cc model/weight_rates_test.cc
          model/lint_change_test.cc model/lint_gguf_test.cc model/lint_published_test.cc
          model/lint_test.cc model/npy_test.cc model/rope_check_test.cc model/rope_coverage_test.cc
          model/rope_extension_test.cc model/rope_identify_test.cc model/rope_reference_test.cc
          model/rope_settings_test.cc
  LIBRARIES ropeline_model fmt::fmt)

ropeline_test(cli_test
  SOURCES model/cli/cli_test.cc model/cli/engine_cli_test.cc model/cli/find_machine_test.cc model/cli/model_files_test.cc model/cli/rope_cli_test.cc model/cli/table_test.cc
  LIBRARIES ropeline_cli)
target_compile_definitions(cli_test PRIVATE ROPELINE_BINARY="$<TARGET_FILE:ropeline>")
add_dependencies(cli_test ropeline)

find_program(ROPELINE_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
if(ROPELINE_PYTHON)
  add_test(NAME PlotCompare COMMAND ${ROPELINE_PYTHON} ${PROJECT_SOURCE_DIR}/scripts/plot_compare_test.py
    $<TARGET_FILE:ropeline> ${PROJECT_SOURCE_DIR}/results)
  add_test(NAME PlotRope COMMAND ${ROPELINE_PYTHON} ${PROJECT_SOURCE_DIR}/scripts/plot_rope_test.py
    $<TARGET_FILE:ropeline>)
  add_test(NAME EngineCheck COMMAND ${ROPELINE_PYTHON} ${PROJECT_SOURCE_DIR}/scripts/engine_check_test.py
    $<TARGET_FILE:ropeline> ${PROJECT_SOURCE_DIR}/results)
  set_tests_properties(PlotCompare PlotRope EngineCheck PROPERTIES SKIP_RETURN_CODE 77)
endif()

# These test what is not hot: compiled four times as fast without optimising and with a precompiled header.
foreach(name model_test cli_test bench_test)
  if(TARGET ${name})
    target_compile_options(${name} PRIVATE -O0)
    target_precompile_headers(${name} PRIVATE ${ropeline_headers} <gtest/gtest.h>)
  endif()
endforeach()
