#include "bench/options.h"

#include <gtest/gtest.h>

#include "kernels/targets.h"

namespace ropeline {
namespace {

Topology FourCores() {
  Topology topology;
  for (int cpu = 0; cpu < 4; ++cpu) {
    Core core;
    core.logical_cpus = {cpu};
    topology.cores.push_back(core);
    topology.affinity.push_back(cpu);
  }
  return topology;
}

Options Parse(std::vector<std::string> words) {
  words.insert(words.begin(), "/somewhere/bench_all");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return ParseOptions(static_cast<int>(argv.size()), argv.data(), FourCores());
}

std::string Refusal(const std::vector<std::string>& words) {
  try {
    Parse(words);
  } catch (const BadUsage& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Options, DefaultsAreTheFullRun) {
  const Options options = Parse({"--out", "x"});
  EXPECT_FALSE(options.quick);
  EXPECT_EQ(options.rounds, 9);
  EXPECT_EQ(options.threads, (std::vector<int>{1, 2, 4}));
  EXPECT_EQ(options.targets, std::vector<std::string>{BestTargetName()});
  EXPECT_EQ(options.out, "x");
  EXPECT_EQ(options.command, "bench_all --out FOLDER") << "no machine path in a result";
}

TEST(Options, TakesListsAndGoogleBenchmarksFlags) {
  const Options options =
      Parse({"--quick", "--families", "score_bias,input_add", "--threads=2,1", "--targets", "all",
             "--benchmark_filter=alibi", "--benchmark_repetitions=9", "--out=y"});
  EXPECT_EQ(options.families, (std::vector<std::string>{"score_bias", "input_add"}));
  EXPECT_EQ(options.threads, (std::vector<int>{1, 2}));
  EXPECT_EQ(options.targets, SupportedTargetNames());
  EXPECT_EQ(options.rounds, 9);
  EXPECT_EQ(options.filter, "alibi");
  EXPECT_EQ(options.min_seconds, 0.01);
  EXPECT_EQ(Parse({"--benchmark_min_time=0.5"}).min_seconds, 0.5);
  EXPECT_EQ(Parse({"--benchmark_min_time=0.5s"}).min_seconds, 0.5) << "as newer versions write it";
}

TEST(Options, TakesAFolderOfAPeer) {
  EXPECT_EQ(Parse({}).ggml, "");
  const Options options = Parse({"--families", "peer", "--ggml", "/home/me/llama.cpp/build", "--out=x"});
  EXPECT_EQ(options.ggml, "/home/me/llama.cpp/build");
  EXPECT_EQ(options.families, std::vector<std::string>{"peer"});
  EXPECT_EQ(options.command, "bench_all --families peer --ggml FOLDER --out=FOLDER") << "no machine path";
  EXPECT_EQ(Parse({"--ggml=there"}).ggml, "there");
  EXPECT_EQ(Parse({"--ggml=there"}).command, "bench_all --ggml=FOLDER");
}

TEST(Options, TakesAModelToExecute) {
  const Options options = Parse({"--families", "step", "--model", "llama-3.2-1b", "--context", "0,4k",
                                 "--kv=f16,q8_0", "--weights", "q4_0", "--out", "x"});
  EXPECT_EQ(options.step.model, "llama-3.2-1b");
  EXPECT_EQ(options.step.contexts, (std::vector<std::string>{"0", "4k"}));
  EXPECT_EQ(options.step.kv, (std::vector<std::string>{"f16", "q8_0"}));
  EXPECT_EQ(options.step.weights, "q4_0");
  EXPECT_EQ(options.command,
            "bench_all --families step --model llama-3.2-1b --context 0,4k --kv=f16,q8_0 --weights q4_0 "
            "--out FOLDER");
  EXPECT_EQ(Parse({"--model", "/home/me/model/config.json"}).command, "bench_all --model FILE");
  EXPECT_EQ(Parse({"--model=/home/me/model"}).command, "bench_all --model=FILE");
  EXPECT_EQ(Parse({}).step.model, "");
}

// A run of peers or steps alone must not replace a whole result of the machine.
TEST(Options, PeersOrStepsAloneHaveAFolderOfTheirOwn) {
  const std::string whole = Parse({}).out;
  EXPECT_EQ(Parse({"--families", "peer"}).out, whole + "/peers");
  EXPECT_EQ(Parse({"--families", "peer,attention"}).out, whole);
  EXPECT_EQ(Parse({"--families", "step", "--model", "m"}).out, whole + "/steps");
  EXPECT_EQ(Parse({"--families", "peer", "--out=x"}).out, "x");
}

TEST(Options, RefusesInOneLineThatSaysWhatWasExpected) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--fast"},
                                             {"stray"},
                                             {"--families", "rope"},
                                             {"--families"},
                                             {"--threads", "0"},
                                             {"--threads", "2x"},
                                             {"--threads", "5"},
                                             {"--threads", "99999999999"},
                                             {"--targets", "AVX9"},
                                             {"--targets", "all,AVX9"},
                                             {"--out="},
                                             {"--ggml="},
                                             {"--model="},
                                             {"--weights="},
                                             {"--context"},
                                             {"--ggml"},
                                             {"--benchmark_min_time=nan"},
                                             {"--benchmark_min_time=-1"},
                                             {"--benchmark_min_time=abc"},
                                             {"--benchmark_repetitionsfoo=3"},
                                             {"--benchmark_list_tests=banana"},
                                             {"--benchmark_help"},
                                             {"--benchmark_repetitions=no"},
                                             {"--benchmark_repetitions=0"},
                                             {"--benchmark_out=a.json"},
                                             {"--benchmark_format=csv"}}) {
    const std::string line = Refusal(words);
    EXPECT_NE(line.find("expected"), std::string::npos) << words[0] << ": " << line;
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace ropeline
