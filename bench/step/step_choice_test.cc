#include "bench/step/step_choice.h"

#include <gtest/gtest.h>

#include <string>

namespace ropeline {
namespace {

constexpr uint64_t kGib = uint64_t{1} << 30;

Options Asked(StepOptions step, std::vector<std::string> families = {"step"}) {
  Options options;
  options.step = std::move(step);
  options.families = std::move(families);
  return options;
}

std::string Refusal(const Options& options, uint64_t memory_bytes = 1024 * kGib) {
  try {
    ChooseStep(options, memory_bytes);
  } catch (const BadUsage& error) {
    return error.what();
  }
  return "accepted";
}

TEST(StepChoice, NothingIsExecutedUnasked) {
  EXPECT_FALSE(ChooseStep(Asked({}, {}), kGib));
  EXPECT_FALSE(ChooseStep(Asked({}, {"attention"}), kGib));
}

TEST(StepChoice, TakesWhatIsAsked) {
  const auto choice = ChooseStep(Asked({.model = "llama-3.2-1b",
                                        .contexts = {"16k", "0", "4k", "4096"},
                                        .kv = {"f16", "q8_0"},
                                        .weights = "q4_0"}),
                                 0);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->contexts, (std::vector<size_t>{0, 4096, 16384}));
  EXPECT_EQ(choice->kv, (std::vector{KvFormat::kF16, KvFormat::kQ80}));
  EXPECT_EQ(choice->weights, "q4_0");
  EXPECT_EQ(choice->model, "llama-3.2-1b");
  EXPECT_EQ(choice->plan.layers.size(), 16u);
  const auto defaults = ChooseStep(Asked({.model = "tinyllama-1.1b"}, {}), 0);
  EXPECT_EQ(defaults->contexts, (std::vector<size_t>{0, 4096, 16384, 32768}));
  EXPECT_EQ(defaults->kv, std::vector{KvFormat::kF16});
  EXPECT_EQ(defaults->weights, "q4_k_m");
}

TEST(StepChoice, TakesSeveralModels) {
  EXPECT_TRUE(ChooseSteps(Asked({}, {}), 0).empty());
  const auto choices = ChooseSteps(Asked({.model = "llama-3.2-1b,tinyllama-1.1b", .weights = "q4_0"}), 0);
  ASSERT_EQ(choices.size(), 2u);
  EXPECT_EQ(choices[0].model, "llama-3.2-1b");
  EXPECT_EQ(choices[1].model, "tinyllama-1.1b");
  EXPECT_EQ(choices[1].weights, "q4_0");
  EXPECT_THROW(ChooseSteps(Asked({.model = "llama-3.2-1b,llama-9"}), 0), BadUsage);
}

TEST(StepChoice, RefusesInOneLine) {
  for (const StepOptions& step :
       {StepOptions{.contexts = {"4k"}}, StepOptions{.kv = {"f16"}}, StepOptions{.weights = "q4_0"},
        StepOptions{}, StepOptions{.model = "llama-9"}, StepOptions{.model = "gpt2"},
        StepOptions{.model = "llama-3.2-1b", .contexts = {"deep"}},
        StepOptions{.model = "llama-3.2-1b", .contexts = {"-1"}},
        StepOptions{.model = "llama-3.2-1b", .contexts = {"1e9"}},
        StepOptions{.model = "llama-3.2-1b", .kv = {"q5_1"}},
        StepOptions{.model = "llama-3.2-1b", .weights = "q5_k_m"},
        StepOptions{.model = "llama-3.2-1b", .weights = "stored"},
        StepOptions{.model = "/nowhere/config.json"}}) {
    const std::string line = Refusal(Asked(step));
    EXPECT_NE(line.find("expected"), std::string::npos) << step.model << ": " << line;
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
  }
  EXPECT_NE(Refusal(Asked({.model = "llama-3.2-1b"}, {"attention"})).find("expected"), std::string::npos);
}

// 8.0 GB of weights in q8_0 and 128 KiB of cache a token, f16.
TEST(StepChoice, RefusesWhatDoesNotFitBeforeAnyOfItIsTaken) {
  const StepOptions step{.model = "llama-3.1-8b", .contexts = {"32k"}, .weights = "q8_0"};
  EXPECT_EQ(Refusal(Asked(step), 14 * kGib), "accepted");
  const std::string line = Refusal(Asked(step), 12 * kGib);
  EXPECT_NE(
      line.find("--model: llama-3.1-8b with weights q8_0 and 33280 tokens of cache needs 12.2 GiB, and of "
                "this machine's memory 10.8 GiB can be had, expected"),
      std::string::npos)
      << line;
}

}  // namespace
}  // namespace ropeline
