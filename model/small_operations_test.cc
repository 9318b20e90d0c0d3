#include "model/small_operations.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/fake_machine.h"
#include "model/kernel_terms.h"

namespace ropeline {
namespace {

const Where kWhere{"test", "request"};

nlohmann::json Rows() {
  return FakeResultsWith({{"linear/rms_norm/f32/BEST/n:1/d:2048/cache:hot/threads:1", 2048.0},
                          {"linear/rms_norm/f32/BEST/n:512/d:2048/cache:hot/threads:2", 512 * 2048 * 0.5},
                          {"linear/swiglu/f32/BEST/n:1/d:8192/cache:hot/threads:2", 8192 * 3.0},
                          {"linear/swiglu/f32/BEST/n:512/d:8192/cache:hot/threads:2", 512 * 8192 * 1.5},
                          {"linear/residual/f32/BEST/n:1/d:2048/cache:hot/threads:2", 2048 * 0.25},
                          {"linear/residual/f32/BEST/n:512/d:2048/cache:hot/threads:2", 512 * 2048 * 0.125}});
}

TEST(SmallOperationsTest, ElementsAreThoseOfTheLayers) {
  const SmallElements llama = SmallElementsOf(Preset("llama-3.2-1b", kWhere), Stack::kDecoder);
  EXPECT_EQ(llama.normed, (2 * 16 + 1) * 2048.0);
  EXPECT_EQ(llama.added, 2 * 16 * 2048.0);
  EXPECT_EQ(llama.gated, 16 * 8192.0);
  EXPECT_EQ(llama.activated, 0);
  const SmallElements gpt2 = SmallElementsOf(Preset("gpt2", kWhere), Stack::kDecoder);
  EXPECT_EQ(gpt2.gated, 0);
  EXPECT_EQ(gpt2.activated, 12 * 3072.0);
  EXPECT_EQ(SmallElementsOf(Preset("gpt2", kWhere), Stack::kEncoder).normed, 0);
}

TEST(SmallOperationsTest, CostIsThatOfTheKernels) {
  const Cost cost = SmallCost({.normed = 10, .gated = 20, .activated = 30, .added = 40}, 2);
  EXPECT_EQ(cost.bytes_read, 4 * 2 * (10 + 2 * (20 + 20) + 2 * 40));
  EXPECT_EQ(cost.bytes_written, 4 * 2 * (10 + 20 + 20 + 40));
}

TEST(SmallOperationsTest, RatesAreThoseOfTheNearestLength) {
  const SmallElements elements{.normed = 10, .gated = 20, .activated = 30, .added = 40};
  const SmallRates rates(FakeMachine(Rows()), 2);
  EXPECT_DOUBLE_EQ(rates.Time(elements, 1)->ns, 10 * 1 + 40 * 3 + 40 * 0.25);
  EXPECT_DOUBLE_EQ(rates.Time(elements, 256)->ns, 256 * (10 * 0.5 + 40 * 1.5 + 40 * 0.125));
  EXPECT_EQ(rates.Time(elements, 1)->row, "linear/rms_norm/f32/BEST/n:1/d:2048/cache:hot/threads:1");
  EXPECT_FALSE(SmallRates(FakeMachine(Rows()), 1).Time(elements, 1)) << "no swiglu at one thread";
}

TEST(SmallOperationsTest, ATermOfBothLevelsWhereMeasured) {
  const Machine machine = FakeMachine(Rows());
  const Llm llm = Preset("llama-3.2-1b", kWhere);
  const WeightLayout weights = LayOutWeights(llm, FindWeightMix("q8_0", kWhere));
  const KvFormats kv = FindKvFormat("f16", kWhere);
  const Workload work{&llm, &weights, &kv, 1024, 1, 512};
  const auto find = [](const std::vector<Term>& terms) {
    const auto at = std::find_if(terms.begin(), terms.end(),
                                 [](const Term& term) { return term.name == "small_operations"; });
    return at == terms.end() ? Term{} : *at;
  };
  EXPECT_EQ(find(DecodeTermsAtLimit(work, FakeMachine(), 2)).name, "") << "nothing was measured of it";
  const Term limit = find(PrefillTermsAtLimit(work, machine, 2));
  EXPECT_GT(limit.ms, 0);
  EXPECT_EQ(limit.bytes, SmallCost(SmallElementsOf(llm, Stack::kDecoder), 1024).Bytes());
  nlohmann::json results = Rows();
  for (const char* row :
       {"attention/decode/f16/BEST/n:4096/h:32/hkv:8/d:64/cache:cold/threads:2",
        "attention/prefill/f16/BEST/n:4096/m:4096/h:4/hkv:1/d:64/causal:1/cache:hot/threads:2"}) {
    results["benchmarks"].push_back(FakeRow(row, {{"call_ns", 1e6}, {"working_set", 1e9}}));
  }
  const Machine with = FakeMachine(results);
  const KernelSources sources(with, 2);
  const Term decode = find(DecodeTermsFromKernels(work, with, 2, sources).terms);
  EXPECT_EQ(decode.source, TermSource::kMeasured);
  EXPECT_NEAR(decode.ms, (33 * 2048 * 1.0 + 16 * 8192 * 3.0 + 32 * 2048 * 0.25) / 1e6, 1e-12);
  const Term prefill = find(PrefillTermsFromKernels(work, with, 2, sources).terms);
  EXPECT_NEAR(prefill.ms, 1024 * (33 * 2048 * 0.5 + 16 * 8192 * 1.5 + 32 * 2048 * 0.125) / 1e6, 1e-9);
}

}  // namespace
}  // namespace ropeline
