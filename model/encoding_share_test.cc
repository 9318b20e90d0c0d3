#include "model/encoding_share.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/registry.h"
#include "model/fake_machine.h"

namespace ropeline {
namespace {

TEST(EncodingShareTest, EveryEncodingHasAShareInBothPhases) {
  const Machine machine = FakeMachine();
  const std::vector<EncodingShare> shares =
      EncodingShares(FakeRequest("llama-3.2-3b", {1024, 2048}), machine, MeasuredEncodings(machine, 2));
  EXPECT_EQ(shares.size(), 2 * 2 * AllEncodings().size());
  for (const EncodingShare& share : shares) {
    if (share.source == TimeSource::kNothing) continue;
    EXPECT_GT(share.expected_ms, 0) << share.encoding->name;
    EXPECT_GT(share.Share(), 0);
    EXPECT_LT(share.Share(), 1);
  }
}

// The article's cost classes, from the registry's costs on one shape.
TEST(EncodingShareTest, TheThreeCostClassesGrowAsTheySay) {
  const Machine machine = FakeMachine();
  const std::vector<EncodingShare> shares =
      EncodingShares(FakeRequest("llama-3.2-3b", {512, 4096}), machine, {});
  for (const Encoding* encoding : AllEncodings()) {
    const EncodingShare& a = ShareOf(shares, encoding->name, Phase::kPrefill, 512);
    const EncodingShare& b = ShareOf(shares, encoding->name, Phase::kPrefill, 4096);
    if (a.source == TimeSource::kNothing) continue;
    const bool bias = encoding->placement == Placement::kScoreBias;
    EXPECT_NEAR(b.cost.Bytes() / a.cost.Bytes(), bias ? 64 : 8, bias ? 0.3 : 1e-6) << encoding->name;
    EXPECT_EQ(a.applications, encoding->placement == Placement::kInputAdd ? 1 : 28) << encoding->name;
    EXPECT_EQ(a.whole_pass, encoding->placement == Placement::kInputAdd) << encoding->name;
    EXPECT_EQ(a.score_bytes, bias ? 4.0 * 24 * 512 * 512 : 0) << encoding->name;
  }
}

TEST(EncodingShareTest, SharesAreScaledByTheNearestMeasuredRatio) {
  const Machine machine = FakeMachine();
  const std::vector<MeasuredEncoding> rows = MeasuredEncodings(machine, 2);
  const std::vector<EncodingShare> shares =
      EncodingShares(FakeRequest("llama-3.2-3b", {4096}), machine, rows);
  const EncodingShare& prefill = ShareOf(shares, "rope_half", Phase::kPrefill, 4096);
  EXPECT_EQ(prefill.ratio_row, "qk_rotation/rope_half/f32/BEST/n:4096/h:32/d:128/cache:cold/threads:2");
  EXPECT_NEAR(prefill.expected_ms, 14, 1e-9) << "the same shape: 24 + 8 heads of 128";
  const EncodingShare& decode = ShareOf(shares, "rope_half", Phase::kDecode, 4096);
  EXPECT_EQ(decode.ratio_row, "qk_rotation/rope_half/f32/BEST/n:4/h:32/d:128/cache:hot/threads:2");
  EXPECT_NEAR(decode.expected_ms, 1e-3 / 4, 1e-9) << "a quarter of the four tokens' time";
  const EncodingShare& unmeasured = ShareOf(shares, "rope_interleaved", Phase::kPrefill, 4096);
  EXPECT_FALSE(unmeasured.ratio.has_value());
  EXPECT_EQ(unmeasured.expected_ms, unmeasured.limit_ms);
}

TEST(EncodingShareTest, OfEqualRowsPrefillTakesTheColdOneAndDecodeTheHotOne) {
  for (const bool cold_first : {false, true}) {
    nlohmann::json results = FakeResults();
    for (const bool cold : {cold_first, !cold_first}) {
      for (const char* n : {"1", "4096"}) {
        const std::string name = "qk_rotation/rope_half/f32/BEST/n:" + std::string(n) +
                                 "/h:32/d:128/cache:" + (cold ? "cold" : "hot") + "/threads:2";
        results["benchmarks"].push_back(FakeRow(name, {{"call_ns", 1e3}, {"working_set", 1e9}}));
      }
    }
    const Machine machine = FakeMachine(results);
    const std::vector<EncodingShare> shares =
        EncodingShares(FakeRequest("llama-3.2-3b", {4096}), machine, MeasuredEncodings(machine, 2));
    EXPECT_NE(
        ShareOf(shares, "rope_half", Phase::kPrefill, 4096).ratio_row.find("n:4096/h:32/d:128/cache:cold"),
        std::string::npos);
    EXPECT_NE(ShareOf(shares, "rope_half", Phase::kDecode, 4096).ratio_row.find("n:1/h:32/d:128/cache:hot"),
              std::string::npos);
  }
}

TEST(EncodingShareTest, ALayerIsItsMatricesAndAttentionAndAPassHasTheHeadToo) {
  const Machine machine = FakeMachine();
  const std::vector<EncodingShare> shares = EncodingShares(FakeRequest("llama-3.2-3b", {4096}), machine, {});
  const double n = 4096;
  const double layer_flops = 2 * n * 100663296 + 2 * n * n * 128 * 24;  // matrices of a layer; attention
  const double append_s = n * 2048 * (4 + 2) / 20e9;                    // K and V rows: read f32, write f16
  EXPECT_NEAR(ShareOf(shares, "rope_half", Phase::kPrefill, 4096).beside_ms,
              (layer_flops / 50e9 + append_s) * 1e3, 1e-6);
  // The head's rows of 2520 bytes (q6_K), read once; n of them gathered at the input, written in f32.
  const double head_s = 128256.0 * 2520 / 20e9, gather_s = n * (2520 + 4 * 3072) / 20e9;
  EXPECT_NEAR(ShareOf(shares, "learned", Phase::kPrefill, 4096).beside_ms,
              (28 * (layer_flops / 50e9 + append_s) + head_s + gather_s) * 1e3, 1e-6);
}

// As `nope` is: nothing to move, nothing to compute. And one that stops at 4,096 positions.
Encoding Nothing() {
  Encoding encoding = *FindEncoding("rope_half");
  encoding.name = "nothing";
  encoding.cost = [](const Shape&) { return Cost{}; };
  return encoding;
}

Encoding Short() {
  Encoding encoding = *FindEncoding("rope_half");
  encoding.name = "short";
  encoding.reject = [](const Shape& shape) {
    return shape.first_position + shape.n > 4096 ? "positions end at 4,096" : nullptr;
  };
  return encoding;
}

TEST(EncodingShareTest, AnEncodingWithNothingToDoCostsNothing) {
  const Encoding nothing = Nothing();
  CompareRequest request = FakeRequest("llama-3.2-3b", {4096});
  request.encodings = {&nothing};
  const Machine machine = FakeMachine();
  const std::vector<EncodingShare> shares = EncodingShares(request, machine, MeasuredEncodings(machine, 2));
  ASSERT_EQ(shares.size(), 2u);
  for (const EncodingShare& share : shares) {
    EXPECT_EQ(share.source, TimeSource::kNothing);
    EXPECT_EQ(share.expected_ms, 0);
    EXPECT_EQ(share.Share(), 0);
    EXPECT_TRUE(share.known());
    EXPECT_FALSE(share.ratio.has_value());
  }
  for (const EncodingShare& point : PrefillCurve(request, machine, {}).points)
    EXPECT_EQ(point.expected_ms, 0);
}

TEST(EncodingShareTest, AShapeThatIsRefusedIsLeftOutWithItsReason) {
  const Encoding short_one = Short();
  CompareRequest request = FakeRequest("llama-3.2-3b", {4096, 4097});
  request.encodings = {&short_one};
  const std::vector<EncodingShare> shares = EncodingShares(request, FakeMachine(), {});
  ASSERT_EQ(shares.size(), 2u);
  for (const EncodingShare& share : shares) EXPECT_EQ(share.n, 4096u);
  const std::vector<Rejection> rejected = Rejections(request);
  ASSERT_EQ(rejected.size(), 2u) << "the prompt, and the decode step whose token is the 4,097th";
  for (const Rejection& rejection : rejected) {
    EXPECT_EQ(rejection.encoding, &short_one);
    EXPECT_EQ(rejection.n, 4097u);
    EXPECT_EQ(rejection.reason, "positions end at 4,096");
  }
  EXPECT_TRUE(Rejections(FakeRequest("llama-3.2-3b", {512})).empty());
}

TEST(EncodingShareTest, ATimeSaysWhereItComesFrom) {
  const Machine machine = FakeMachine();
  const std::vector<MeasuredEncoding> rows = MeasuredEncodings(machine, 2);
  const std::vector<EncodingShare> shares =
      EncodingShares(FakeRequest("llama-3.2-3b", {512, 4096, 32768}), machine, rows);
  const auto source = [&](const char* name, uint64_t n) {
    return ShareOf(shares, name, Phase::kPrefill, n).source;
  };
  EXPECT_EQ(source("rope_half", 512), TimeSource::kScaled) << "between n 4 and n 4096";
  EXPECT_EQ(source("rope_half", 4096), TimeSource::kMeasured) << "24 + 8 heads are the row's 32";
  EXPECT_EQ(source("rope_half", 32768), TimeSource::kExtrapolated);
  EXPECT_EQ(source("rope_interleaved", 4096), TimeSource::kLimit);
  EXPECT_EQ(source("alibi", 4096), TimeSource::kExtrapolated) << "24 heads at n 4096, measured 32 at n 512";
}

TEST(EncodingShareTest, AMeasuredTimeStandsEvenBelowItsLimit) {
  nlohmann::json results =
      FakeResultsWith({{"score_bias/alibi/f32/BEST/n:512/h:24/causal:1/cache:cold/threads:2", 1000.0}});
  const Machine machine = FakeMachine(results);
  const std::vector<EncodingShare> shares =
      EncodingShares(FakeRequest("llama-3.2-3b", {512}), machine, MeasuredEncodings(machine, 2));
  const EncodingShare& share = ShareOf(shares, "alibi", Phase::kPrefill, 512);
  EXPECT_EQ(share.source, TimeSource::kMeasured);
  EXPECT_NEAR(share.expected_ms, 1e-3, 1e-12);
  EXPECT_GT(share.limit_ms, share.expected_ms);
}

TEST(EncodingShareTest, RowsThatAreNotPlainGiveNoTimes) {
  const Machine machine = FakeMachine(FakeResultsWith(
      {{"qk_rotation/rope_interleaved/f32/BEST/n:4096/h:32/d:128/inverse:1/cache:cold/threads:2", 9e9},
       {"qk_rotation/rope_interleaved/f32/BEST/n:4096/h:32/d:128/form:out_of_place/cache:cold/threads:2",
        9e9}}));
  const std::vector<EncodingShare> shares =
      EncodingShares(FakeRequest("llama-3.2-3b", {4096}), machine, MeasuredEncodings(machine, 2));
  EXPECT_EQ(ShareOf(shares, "rope_interleaved", Phase::kPrefill, 4096).source, TimeSource::kLimit);
}

TEST(EncodingShareTest, HalfTheBytesInHalfTheWidth) {
  CompareRequest request = FakeRequest("llama-3.2-3b", {1024});
  const std::vector<EncodingShare> full = EncodingShares(request, FakeMachine(), {});
  request.dtype = Dtype::kBf16;
  const std::vector<EncodingShare> half = EncodingShares(request, FakeMachine(), {});
  const auto bias = [](const auto& shares) { return ShareOf(shares, "alibi", Phase::kPrefill, 1024); };
  EXPECT_EQ(bias(full).score_bytes, 4.0 * 24 * 1024 * 1024);
  EXPECT_EQ(bias(half).score_bytes, 2.0 * 24 * 1024 * 1024);
  EXPECT_EQ(bias(half).cost.Bytes() * 2, bias(full).cost.Bytes());
}

TEST(EncodingShareTest, TheCurveGoesFrom128To131072) {
  const Machine machine = FakeMachine();
  const CostCurve curve =
      PrefillCurve(FakeRequest("llama-3.2-3b", {512}), machine, MeasuredEncodings(machine, 2));
  ASSERT_EQ(curve.n.size(), 11u);
  EXPECT_EQ(curve.n.front(), 128u);
  EXPECT_EQ(curve.n.back(), 131072u);
  const std::vector<Rejection> rejected = Rejections(FakeRequest("llama-3.2-3b", curve.n));
  const auto in_prefill = std::count_if(rejected.begin(), rejected.end(), [](const Rejection& rejection) {
    return rejection.phase == Phase::kPrefill;
  });
  EXPECT_EQ(curve.points.size() + static_cast<size_t>(in_prefill), 11 * AllEncodings().size());
  for (size_t i = 1; i < curve.n.size(); ++i)
    EXPECT_GT(curve.beside[i].layer_ms, curve.beside[i - 1].layer_ms);
}

}  // namespace
}  // namespace ropeline
