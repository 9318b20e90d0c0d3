CREATE TABLE IF NOT EXISTS llama_bench (
  build_commit TEXT,
  build_number TEXT,
  cpu_info TEXT,
  gpu_info TEXT,
  backends TEXT,
  model_filename TEXT,
  model_type TEXT,
  model_size TEXT,
  model_n_params TEXT,
  n_batch TEXT,
  n_ubatch TEXT,
  n_threads TEXT,
  cpu_mask TEXT,
  cpu_strict TEXT,
  poll TEXT,
  type_k TEXT,
  type_v TEXT,
  n_gpu_layers TEXT,
  n_cpu_moe TEXT,
  split_mode TEXT,
  main_gpu TEXT,
  no_kv_offload TEXT,
  flash_attn TEXT,
  devices TEXT,
  tensor_split TEXT,
  tensor_buft_overrides TEXT,
  use_mmap TEXT,
  use_direct_io TEXT,
  embeddings TEXT,
  no_op_offload TEXT,
  no_host TEXT,
  n_prompt TEXT,
  n_gen TEXT,
  n_depth TEXT,
  test_time TEXT,
  avg_ns TEXT,
  stddev_ns TEXT,
  avg_ts TEXT,
  stddev_ts TEXT
);

INSERT INTO llama_bench (build_commit, build_number, cpu_info, gpu_info, backends, model_filename, model_type, model_size, model_n_params, n_batch, n_ubatch, n_threads, cpu_mask, cpu_strict, poll, type_k, type_v, n_gpu_layers, n_cpu_moe, split_mode, main_gpu, no_kv_offload, flash_attn, devices, tensor_split, tensor_buft_overrides, use_mmap, use_direct_io, embeddings, no_op_offload, no_host, n_prompt, n_gen, n_depth, test_time, avg_ns, stddev_ns, avg_ts, stddev_ts) VALUES ('5c0d1f2e', '7001', 'Example CPU, 8 cores', '', 'CPU', 'models/llama-3.2-1b-q4_0.gguf', 'llama 1B Q4_0', '770928736', '1235814432', '2048', '512', '8', '0x0', '0', '50', 'f16', 'f16', '-1', '0', 'layer', '0', '0', '1', 'auto', '0.00', 'none', '1', '0', '0', '0', '0', '512', '0', '0', '2026-01-05T10:00:00Z', '2411162802', '14193618', '212.345678', '1.250000');
INSERT INTO llama_bench (build_commit, build_number, cpu_info, gpu_info, backends, model_filename, model_type, model_size, model_n_params, n_batch, n_ubatch, n_threads, cpu_mask, cpu_strict, poll, type_k, type_v, n_gpu_layers, n_cpu_moe, split_mode, main_gpu, no_kv_offload, flash_attn, devices, tensor_split, tensor_buft_overrides, use_mmap, use_direct_io, embeddings, no_op_offload, no_host, n_prompt, n_gen, n_depth, test_time, avg_ns, stddev_ns, avg_ts, stddev_ts) VALUES ('5c0d1f2e', '7001', 'Example CPU, 8 cores', '', 'CPU', 'models/llama-3.2-1b-q4_0.gguf', 'llama 1B Q4_0', '770928736', '1235814432', '2048', '512', '8', '0x0', '0', '50', 'f16', 'f16', '-1', '0', 'layer', '0', '0', '1', 'auto', '0.00', 'none', '1', '0', '0', '0', '0', '0', '128', '0', '2026-01-05T10:00:00Z', '3324675324', '18134592', '38.500000', '0.210000');
INSERT INTO llama_bench (build_commit, build_number, cpu_info, gpu_info, backends, model_filename, model_type, model_size, model_n_params, n_batch, n_ubatch, n_threads, cpu_mask, cpu_strict, poll, type_k, type_v, n_gpu_layers, n_cpu_moe, split_mode, main_gpu, no_kv_offload, flash_attn, devices, tensor_split, tensor_buft_overrides, use_mmap, use_direct_io, embeddings, no_op_offload, no_host, n_prompt, n_gen, n_depth, test_time, avg_ns, stddev_ns, avg_ts, stddev_ts) VALUES ('5c0d1f2e', '7001', 'Example CPU, 8 cores', '', 'CPU', 'models/llama-3.2-1b-q4_0.gguf', 'llama 1B Q4_0', '770928736', '1235814432', '2048', '512', '8', '0x0', '0', '50', 'f16', 'f16', '-1', '0', 'layer', '0', '0', '1', 'auto', '0.00', 'none', '1', '0', '0', '0', '0', '512', '0', '4096', '2026-01-05T10:00:00Z', '3407653910', '20411903', '150.250000', '0.900000');
INSERT INTO llama_bench (build_commit, build_number, cpu_info, gpu_info, backends, model_filename, model_type, model_size, model_n_params, n_batch, n_ubatch, n_threads, cpu_mask, cpu_strict, poll, type_k, type_v, n_gpu_layers, n_cpu_moe, split_mode, main_gpu, no_kv_offload, flash_attn, devices, tensor_split, tensor_buft_overrides, use_mmap, use_direct_io, embeddings, no_op_offload, no_host, n_prompt, n_gen, n_depth, test_time, avg_ns, stddev_ns, avg_ts, stddev_ts) VALUES ('5c0d1f2e', '7001', 'Example CPU, 8 cores', '', 'CPU', 'models/llama-3.2-1b-q4_0.gguf', 'llama 1B Q4_0', '770928736', '1235814432', '2048', '512', '8', '0x0', '0', '50', 'f16', 'f16', '-1', '0', 'layer', '0', '0', '1', 'auto', '0.00', 'none', '1', '0', '0', '0', '0', '0', '128', '4096', '2026-01-05T10:00:00Z', '5885057471', '13528867', '21.750000', '0.050000');
INSERT INTO llama_bench (build_commit, build_number, cpu_info, gpu_info, backends, model_filename, model_type, model_size, model_n_params, n_batch, n_ubatch, n_threads, cpu_mask, cpu_strict, poll, type_k, type_v, n_gpu_layers, n_cpu_moe, split_mode, main_gpu, no_kv_offload, flash_attn, devices, tensor_split, tensor_buft_overrides, use_mmap, use_direct_io, embeddings, no_op_offload, no_host, n_prompt, n_gen, n_depth, test_time, avg_ns, stddev_ns, avg_ts, stddev_ts) VALUES ('5c0d1f2e', '7001', 'Example CPU, 8 cores', '', 'CPU', 'models/llama-3.2-1b-q4_0.gguf', 'llama 1B Q4_0', '770928736', '1235814432', '2048', '512', '8', '0x0', '0', '50', 'f16', 'f16', '-1', '0', 'layer', '0', '0', '1', 'auto', '0.00', 'none', '1', '0', '0', '0', '0', '4096', '128', '0', '2026-01-05T10:00:00Z', '24774193548', '58121275', '170.500000', '0.400000');
