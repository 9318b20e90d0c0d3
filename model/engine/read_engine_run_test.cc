#include "model/engine/read_engine_run.h"

#include <gtest/gtest.h>

#include <string>

#include "model/bad_input.h"

namespace ropeline {
namespace {

std::vector<EngineRun> Fixture(const std::string& name) {
  return ReadEngineRuns(std::string(ROPELINE_SOURCE_DIR) + "/model/engine/testdata/" + name);
}

std::string Text(const RunRow& row) {
  const std::string phase = row.phase == RunPhase::kPrefill  ? "pp"
                            : row.phase == RunPhase::kDecode ? "tg"
                                                             : "pp+tg";
  return phase + " " + std::to_string(row.n_kv) + "/" + std::to_string(row.n_prompt) + "/" +
         std::to_string(row.n_generated) + " x" + std::to_string(row.n_sequences);
}

std::vector<std::string> Texts(const EngineRun& run) {
  std::vector<std::string> texts;
  for (const RunRow& row : run.rows) texts.push_back(Text(row));
  return texts;
}

using Strings = std::vector<std::string>;

TEST(ReadEngineRunTest, LlamaBenchsFourMachineReadableFormatsSayTheSame) {
  for (const char* name : {"llama_bench.json", "llama_bench.jsonl", "llama_bench.csv", "llama_bench.sql"}) {
    SCOPED_TRACE(name);
    const auto runs = Fixture(name);
    ASSERT_EQ(runs.size(), 1u);
    const EngineRun& run = runs[0];
    EXPECT_EQ(run.tool, "llama-bench");
    EXPECT_EQ(run.engine, "llama.cpp");
    EXPECT_EQ(run.version, "5c0d1f2e (7001)");
    EXPECT_EQ(run.cpu, "Example CPU, 8 cores");
    EXPECT_EQ(run.model, "llama 1B Q4_0");
    EXPECT_EQ(run.weight_format, "Q4_0");
    EXPECT_EQ(run.model_bytes, 770928736u);
    EXPECT_EQ(run.model_params, 1235814432u);
    EXPECT_EQ(run.threads, 8);
    EXPECT_FALSE(run.threads_batch.has_value());
    EXPECT_EQ(run.type_k, "f16");
    EXPECT_EQ(run.type_v, "f16");
    EXPECT_EQ(run.flash_attention, true);
    EXPECT_EQ(run.ubatch, 512u);
    EXPECT_TRUE(run.warnings.empty()) << run.warnings[0];
    EXPECT_EQ(Texts(run), (Strings{"pp 0/512/0 x1", "tg 0/0/128 x1", "pp 4096/512/0 x1", "tg 4096/0/128 x1",
                                   "pp+tg 0/4096/128 x1"}));
    EXPECT_NEAR(run.rows[0].tok_per_s, 212.345678, 1e-6);
    EXPECT_EQ(run.rows[0].stddev_tok_per_s, 1.25);
  }
}

TEST(ReadEngineRunTest, MarkdownInProseSplitsByThreadsAndLeavesTheGpuOut) {
  const auto runs = Fixture("llama_bench_in_prose.md");
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].threads, 4);
  EXPECT_EQ(runs[0].rows.size(), 4u);
  EXPECT_EQ(runs[1].threads, 8);
  EXPECT_EQ(Texts(runs[1]), (Strings{"pp 0/512/0 x1", "tg 0/0/128 x1", "pp 4096/512/0 x1", "tg 4096/0/128 x1",
                                     "pp+tg 0/4096/128 x1"}));
  EXPECT_EQ(runs[1].rows[3].tok_per_s, 21.75);
  EXPECT_EQ(runs[1].rows[3].stddev_tok_per_s, 0.05);
  EXPECT_EQ(runs[1].rows[3].line, 18u);
  EXPECT_EQ(runs[1].version, "5c0d1f2e (7001)");
  EXPECT_EQ(runs[1].engine, "llama.cpp");
  EXPECT_EQ(runs[1].model_bytes, 770923561u);  // 735.21 MiB
  EXPECT_EQ(runs[1].model_params, 1240000000u);
  EXPECT_EQ(runs[1].type_k, "f16");  // no column: the default
  EXPECT_EQ(runs[1].flash_attention, true);
  ASSERT_EQ(runs[0].warnings.size(), 1u);
  EXPECT_EQ(runs[0].warnings[0], "2 rows left out (the first in line 31): ran on a GPU (CUDA)");
}

TEST(ReadEngineRunTest, IkLlamaBenchGeneratesBehindThePromptAndHasThreadsPerPhase) {
  const auto runs = Fixture("ik_llama_bench.md");
  ASSERT_EQ(runs.size(), 1u);
  const EngineRun& run = runs[0];
  EXPECT_EQ(run.engine, "ik_llama.cpp");
  EXPECT_EQ(run.mla, 3);
  EXPECT_EQ(run.weight_format, "IQ4_NL_R4");
  EXPECT_EQ(run.bits_per_weight, 4.5);
  EXPECT_EQ(run.type_k, "q8_0");
  EXPECT_EQ(run.threads, 32);
  EXPECT_EQ(run.threads_batch, 64);
  EXPECT_EQ(Texts(run), (Strings{"pp 0/512/0 x1", "pp 0/4096/0 x1", "tg 128/0/64 x1", "tg 4096/0/64 x1"}));
}

TEST(ReadEngineRunTest, SweepBenchTablesAreRunsOfTheirOwnAmongLogLines) {
  const auto runs = Fixture("sweep_bench.md");
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].tool, "sweep-bench");
  EXPECT_EQ(runs[0].title, "main@0a1b2c3d");
  EXPECT_EQ(runs[0].threads, 16);
  EXPECT_EQ(runs[0].threads_batch, 24);
  EXPECT_EQ(runs[0].ubatch, 512u);
  EXPECT_EQ(runs[0].flash_attention, true);
  EXPECT_EQ(runs[0].mla, 3);
  EXPECT_EQ(runs[0].type_k, "q8_0");
  // Both phases begin at N_KV.
  EXPECT_EQ(Texts(runs[0]), (Strings{"pp 0/512/0 x1", "tg 0/0/128 x1", "pp 512/512/0 x1", "tg 512/0/128 x1",
                                     "pp 1024/512/0 x1", "tg 1024/0/128 x1"}));
  EXPECT_EQ(runs[0].rows[5].tok_per_s, 30.48);
  EXPECT_EQ(runs[1].title, "PR");
  EXPECT_EQ(runs[1].rows.size(), 4u);
  ASSERT_EQ(runs[1].warnings.size(), 1u);
  EXPECT_NE(runs[1].warnings[0].find("cut short"), std::string::npos) << runs[1].warnings[0];
}

TEST(ReadEngineRunTest, SweepBenchJsonl) {
  const auto runs = Fixture("sweep_bench.jsonl");
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].threads, 8);
  EXPECT_EQ(Texts(runs[0]),
            (Strings{"pp 0/512/0 x1", "tg 0/0/128 x1", "pp 512/512/0 x1", "tg 512/0/128 x1"}));
  EXPECT_NEAR(runs[0].rows[0].SecondsPerToken() * 512, 2.5, 1e-6);
  EXPECT_NEAR(runs[0].rows[3].SecondsPerToken() * 128, 6.6, 1e-6);
}

// N_KV of batched-bench is what the cache holds in the end: PP·B + TG·B.
TEST(ReadEngineRunTest, BatchedBenchGeneratesBehindThePromptForAllSequences) {
  const auto runs = Fixture("batched_bench.txt");
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].tool, "batched-bench");
  EXPECT_EQ(runs[0].ubatch, 256u);
  EXPECT_EQ(runs[0].flash_attention, false);
  EXPECT_EQ(Texts(runs[0]), (Strings{"pp 0/512/0 x1", "tg 512/0/64 x1", "pp 0/512/0 x4", "tg 512/0/64 x4",
                                     "pp 0/2048/0 x1", "tg 2048/0/64 x1"}));
  EXPECT_NEAR(runs[0].rows[3].SecondsPerToken() * 64, 3.2, 1e-6);
}

TEST(ReadEngineRunTest, APromptSharedBySequencesIsProcessedOnce) {
  const auto runs = Fixture("batched_bench.jsonl");
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(Texts(runs[0]), (Strings{"pp 0/512/0 x1", "tg 512/0/32 x4"}));
  EXPECT_NEAR(runs[0].rows[0].SecondsPerToken() * 512, 4, 1e-6);
  const auto apart = ParseEngineRuns(
      "main: n_kv_max = 4096, is_pp_shared = 0, is_tg_separate = 1, n_threads = 4\n"
      "| PP | TG | B | N_KV | T_PP s | S_PP t/s | T_TG s | S_TG t/s |\n"
      "| 512 | 32 | 4 | 2176 | 16.000 | 128.00 | 12.800 | 10.00 |\n",
      "apart.txt");
  EXPECT_EQ(Texts(apart[0]), (Strings{"pp 0/512/0 x4", "tg 512/0/32 x1"}));  // one sequence after the other
}

// JSON lists the samples; a table does not say how many there were.
TEST(ReadEngineRunTest, RepetitionsAreCountedWhereTheyAreListed) {
  EXPECT_EQ(Fixture("llama_bench.json").at(0).rows.at(0).repetitions, 2u);
  EXPECT_EQ(Fixture("llama_bench.jsonl").at(0).rows.at(0).repetitions, 2u);
  EXPECT_FALSE(Fixture("llama_bench.csv").at(0).rows.at(0).repetitions);
}

TEST(ReadEngineRunTest, ASpreadsheetsSemicolonsAndDecimalCommas) {
  const auto runs = Fixture("decimal_comma.csv");
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].model_bytes, 770923561u);
  ASSERT_EQ(runs[0].rows.size(), 3u);
  EXPECT_EQ(runs[0].rows[0].tok_per_s, 212.35);
  EXPECT_EQ(runs[0].rows[0].stddev_tok_per_s, 1.25);
  EXPECT_EQ(runs[0].rows[2].tok_per_s, 1150.25);
  ASSERT_EQ(runs[0].warnings.size(), 1u);
  EXPECT_NE(runs[0].warnings[0].find("decimal comma"), std::string::npos);
}

TEST(ReadEngineRunTest, OldBuildsWriteLabelsWithABlankAndBackendsAsFlags) {
  const auto table = ParseEngineRuns(
      "| model | size | params | backend | threads | test | t/s |\n|---|--:|--:|---|--:|---|--:|\n"
      "| llama 7B mostly Q4_0 | 3.56 GiB | 6.74 B | BLAS | 4 | pp 64 | 6.17 ± 0.07 |\n"
      "| llama 7B mostly Q4_0 | 3.56 GiB | 6.74 B | BLAS | 4 | tg 16 | 4.05 ± 0.02 |\n",
      "old.md");
  ASSERT_EQ(table.size(), 1u);
  EXPECT_EQ(Texts(table[0]), (Strings{"pp 0/64/0 x1", "tg 0/0/16 x1"}));
  const char* kOld = R"([{"build_commit":"0a","cuda":%,"metal":false,"blas":true,"model_type":"llama 7B Q4_0",
      "n_threads":4,"n_gpu_layers":99,"n_prompt":0,"n_gen":16,"avg_ts":4.05,"stddev_ts":0.02}])";
  const auto with = [&](const char* cuda) {
    std::string text = kOld;
    return text.replace(text.find('%'), 1, cuda);
  };
  EXPECT_EQ(Texts(ParseEngineRuns(with("false"), "old.json")[0]), Strings{"tg 0/0/16 x1"});
  EXPECT_THROW(ParseEngineRuns(with("true"), "old.json"), BadInput);
}

TEST(ReadEngineRunTest, AGpuBackendWithoutLayersOnItStillDecodesOnTheCpu) {
  const char* kTable =
      "| model | backend | ngl | test | t/s |\n|---|---|---|---|---|\n"
      "| llama 8B Q4_0 | CUDA | 0 | pp512 | 900.00 ± 1 |\n| llama 8B Q4_0 | CUDA | 0 | tg64 | 9.00 ± 0 |\n";
  const auto runs = ParseEngineRuns(kTable, "ngl0.md");
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(Texts(runs[0]), Strings{"tg 0/0/64 x1"});
  ASSERT_EQ(runs[0].warnings.size(), 1u);
  // llama-bench -dev none on such a build
  const auto none = ParseEngineRuns(
      "| model | backend | ngl | dev | test | t/s |\n| llama 8B Q4_0 | CUDA | -1 | none | pp512 | 90.00 |\n",
      "none.md");
  EXPECT_EQ(Texts(none[0]), Strings{"pp 0/512/0 x1"});
}

TEST(ReadEngineRunTest, ARowThatIsThereAlreadyBeginsAnotherRun) {
  const std::string once =
      "| model | threads | test | t/s |\n|---|---|---|---|\n| m | 4 | tg64 | 9.00 |\n| m | 4 | tg64 @ d64 | "
      "8.00 |\n";
  const auto runs = ParseEngineRuns(once + "\nafter the change:\n\n" + once, "two.md");
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[1].rows.size(), 2u);
  // One table per depth is one run.
  const auto apart = ParseEngineRuns(
      "| model | threads | test | t/s |\n| m | 4 | tg64 | 9.00 |\n\n| model | threads | test | t/s |\n"
      "| m | 4 | tg64 @ d4096 | 8.00 |\n",
      "apart.md");
  ASSERT_EQ(apart.size(), 1u);
  EXPECT_EQ(Texts(apart[0]), (Strings{"tg 0/0/64 x1", "tg 4096/0/64 x1"}));
}

TEST(ReadEngineRunTest, SettingsWithoutAPlaceTellRunsApart) {
  const auto runs = ParseEngineRuns(
      "| model | threads | rtr | fmoe | test | t/s |\n| m | 4 | 0 | 1 | tg64 | 9.00 |\n| m | 4 | 1 | 1 | "
      "tg64 | 9.50 |\n",
      "options.md");
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].options, "rtr 0");
  EXPECT_EQ(runs[1].options, "rtr 1");
}

TEST(ReadEngineRunTest, TheLogAndTheCommandAroundATableDescribeIt) {
  const auto runs = ParseEngineRuns(
      "$ ~/ik_llama.cpp/build/bin/llama-sweep-bench -m models/Qwen3-14B-IQ4_KS.gguf -t 12 -fa -c 4096\n"
      "llm_load_print_meta: model ftype      = IQ4_KS - 4.25 bpw\n"
      "llm_load_print_meta: model params     = 14.768 B\n"
      "llm_load_print_meta: model size       = 7.664 GiB (4.458 BPW) \n"
      "llm_load_print_meta: general.name     = Qwen3 14B\n"
      "llama_new_context_with_model: KV self size  =  340.00 MiB, K (q8_0):  170.00 MiB, V (f16):  170.00 "
      "MiB\n"
      "PP\tTG\tN_KV\tT_PP s\tS_PP t/s\tT_TG s\tS_TG t/s\n"
      "512\t128\t0\t2.500\t204.80\t6.400\t20.00\n",
      "log.txt");
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].engine, "ik_llama.cpp");
  EXPECT_EQ(runs[0].model, "Qwen3 14B");
  EXPECT_EQ(runs[0].weight_format, "IQ4_KS");
  EXPECT_EQ(runs[0].bits_per_weight, 4.25);
  EXPECT_EQ(runs[0].model_params, 14768000000u);
  EXPECT_EQ(runs[0].model_bytes, 8229157339u);
  EXPECT_EQ(runs[0].threads, 12);
  EXPECT_EQ(runs[0].flash_attention, true);
  EXPECT_EQ(runs[0].type_k, "q8_0");
  EXPECT_EQ(runs[0].type_v, "f16");
  EXPECT_EQ(Texts(runs[0]), (Strings{"pp 0/512/0 x1", "tg 0/0/128 x1"}));
}

TEST(ReadEngineRunTest, APreambleDescribesTheTableBehindItAlone) {
  const std::string table =
      "| PP | TG | N_KV | T_PP s | S_PP t/s | T_TG s | S_TG t/s |\n"
      "| 512 | 128 | 0 | 2.500 | 204.80 | 6.400 | 20.00 |\n";
  const auto runs = ParseEngineRuns(
      "main: n_kv_max = 512, n_ubatch = 2048, flash_attn = 1, n_threads = 16\n" + table + table, "two.txt");
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].threads, 16);
  EXPECT_EQ(runs[0].flash_attention, true);
  EXPECT_EQ(runs[0].ubatch, 512u);
  EXPECT_FALSE(runs[1].threads.has_value());
  EXPECT_FALSE(runs[1].flash_attention.has_value());
}

TEST(ReadEngineRunTest, CellsInBold) {
  const auto runs =
      ParseEngineRuns("| **model** | threads | test | t/s |\n| m | 4 | `tg64` | **9.25** |\n", "bold.md");
  EXPECT_EQ(Texts(runs[0]), Strings{"tg 0/0/64 x1"});
  EXPECT_EQ(runs[0].rows[0].tok_per_s, 9.25);
}

TEST(ReadEngineRunTest, PowerShellsUtf16AndATerminalsColours) {
  const std::string plain = "| model | threads | test | t/s |\r\n| m | 4 | tg64 | 9.25 |\r\n";
  std::string wide = "\xff\xfe";
  for (const char c : plain) wide += std::string{c, '\0'};
  EXPECT_EQ(ParseEngineRuns(wide, "utf16.txt")[0].rows[0].tok_per_s, 9.25);
  EXPECT_EQ(ParseEngineRuns("\x1b[1;32m" + plain + "\x1b[0m", "colour.txt")[0].rows[0].tok_per_s, 9.25);
}

}  // namespace
}  // namespace ropeline
