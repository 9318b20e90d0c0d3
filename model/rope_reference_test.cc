// Walks the reference frequencies in ROPELINE_SHARED/rope: doubles nearest to the exact value.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/rope_frequencies.h"
#include "model/read_hf_config.h"
#include "model/rope_check.h"
#include "model/rope_coverage.h"

namespace ropeline {
namespace {

using Json = nlohmann::json;

constexpr double kRelative = 1e-13;

std::filesystem::path Shared(const char* file) {
  const char* shared = std::getenv("ROPELINE_SHARED");
  const std::filesystem::path root = shared != nullptr
                                         ? std::filesystem::path(shared)
                                         : std::filesystem::path(ROPELINE_SOURCE_DIR) / "../shared";
  return root / file;
}

Json Read(const char* file) {
  std::ifstream in(Shared(file));
  return in ? Json::parse(in) : Json();
}

// The relative error; an expected 0 wants a 0.
double Error(double value, double expected) {
  return expected == 0 ? std::abs(value) : std::abs(value / expected - 1);
}

void ExpectNear(const std::vector<double>& values, const Json& expected, const std::string& name) {
  ASSERT_EQ(values.size(), expected.size()) << name;
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_LE(Error(values[i], expected[i].get<double>()), kRelative) << name << ", band " << i;
  }
}

void SetFactor(const Json& factor, RopeParameters* p) {
  p->factor = factor.get<double>();
  p->factor_given = true;
}

std::optional<double> OptionalAt(const Json& options, const char* key) {
  return options.contains(key) ? std::optional(options[key].get<double>()) : std::nullopt;
}

struct Case {
  RopeParameters rope;
  RopeSemantics semantics = RopeSemantics::kHf;
  bool known = true;
};

Case CaseOf(const Json& grid) {
  Case c;
  const Json& options = grid["options"];
  RopeParameters& p = c.rope;
  std::string method = grid["method"];
  if (method == "partial") method = options["inner"];
  p.d_head = grid["head_dim"];
  p.d_rot = grid["rope_dim"];
  p.base = grid["base"];
  p.original_context = grid["L_train"];
  SetFactor(grid["factor"], &p);
  if (method == "default") {
    p.type = RopeType::kDefault;
  } else if (method == "linear") {
    p.type = RopeType::kLinear;
  } else if (method == "ntk") {
    p.type = RopeType::kNtk;
  } else if (method == "dynamic") {
    p.type = RopeType::kDynamic;
    p.max_context = options["max_position_embeddings"];
    SetFactor(options["rope_factor"], &p);
  } else if (method.starts_with("yarn")) {
    p.type = RopeType::kYarn;
    p.beta_fast = OptionalAt(options, "beta_fast");
    p.beta_slow = OptionalAt(options, "beta_slow");
    p.mscale = OptionalAt(options, "mscale");
    p.mscale_all_dim = OptionalAt(options, "mscale_all_dim");
    p.attention_factor = OptionalAt(options, "attention_factor");
    p.truncate = options.value("truncate", true);
  } else if (method == "ntk_by_parts") {
    p.type = RopeType::kYarn;
    p.beta_slow = options["alpha"].get<double>();
    p.beta_fast = options["beta"].get<double>();
    c.semantics = RopeSemantics::kPaper;
  } else if (method == "llama3") {
    p.type = RopeType::kLlama3;
    p.low_freq_factor = options.value("low_freq_factor", 0.0);
    p.high_freq_factor = options.value("high_freq_factor", 0.0);
  } else if (method.starts_with("longrope")) {
    p.type = RopeType::kLongrope;
    p.short_factor = options["short_factor"].get<std::vector<double>>();
    p.long_factor = options["long_factor"].get<std::vector<double>>();
    p.max_context = options["max_position_embeddings"];
    p.factor_given = false;
  } else if (method == "proportional") {
    p.type = RopeType::kProportional;
    SetFactor(options["rope_factor"], &p);
    const double live = options["partial_rotary_factor"].get<double>() * static_cast<double>(p.d_head);
    p.d_rot = 2 * static_cast<size_t>(live / 2);
  } else {
    c.known = false;
  }
  return c;
}

TEST(RopeReferenceTest, EveryGridCase) {
  const Json grid = Read("rope/grid.json");
  if (grid.is_null())
    GTEST_SKIP() << "no " << Shared("rope/grid.json") << "; set ROPELINE_SHARED to its folder";
  size_t walked = 0;
  for (const Json& expected : grid["cases"]) {
    const std::string id = expected["id"];
    const Case c = CaseOf(expected);
    ASSERT_TRUE(c.known) << id;
    const auto tokens = expected["L_new"].get<uint64_t>();
    const RopeFrequencies frequencies = FrequenciesOf(c.rope, {tokens, 0}, c.semantics);
    ExpectNear(frequencies.inv_freq, expected["inv_freq"], id);
    EXPECT_LE(Error(frequencies.attention_factor, expected["attention_factor"].get<double>()), kRelative)
        << id;
    const auto bands = RopeBands(UnscaledInvFreq(c.rope), frequencies.inv_freq, expected["L_train"],
                                 static_cast<double>(tokens));
    ASSERT_EQ(bands.size(), expected["unseen"].size());
    for (const RopeBand& band : bands) {
      const auto at = [&](const char* key) { return expected[key][band.i].get<double>(); };
      EXPECT_LE(Error(band.turns_train, at("turns_train")), kRelative) << id << ", band " << band.i;
      EXPECT_LE(Error(band.arc_train, at("max_angle_train")), kRelative) << id << ", band " << band.i;
      EXPECT_LE(Error(band.arc_context, at("max_angle_new")), kRelative) << id << ", band " << band.i;
      // Differences of numbers near 1: absolute.
      EXPECT_NEAR(band.unseen, at("unseen"), kRelative) << id << ", band " << band.i;
      EXPECT_NEAR(band.unseen_travel, at("unseen_travel"), kRelative) << id << ", band " << band.i;
    }
    ++walked;
  }
  EXPECT_EQ(walked, grid["cases"].size());
  EXPECT_GT(walked, 100u);
}

// Published config.json files, read as every command reads them.
TEST(RopeReferenceTest, EveryPublishedConfig) {
  const Json truth = Read("rope/truth.json");
  if (truth.is_null())
    GTEST_SKIP() << "no " << Shared("rope/truth.json") << "; set ROPELINE_SHARED to its folder";
  size_t walked = 0;
  for (const Json& record : truth["records"]) {
    const std::string name = record["name"], layer_type = record["layer_type"];
    const auto path = Shared(("configs/" + name + "/config.json").c_str());
    if (!std::filesystem::exists(path)) continue;
    const std::vector<RopeLayers> groups = RopeLayersOf(ReadHfConfig(path.string()));
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const RopeLayers& layers) {
      return layers.layer_type == layer_type;
    });
    ASSERT_NE(group, groups.end()) << name << ", layers of type " << layer_type;
    const bool by_length = record["seq_len"].is_number();
    const auto tokens = by_length ? record["seq_len"].get<uint64_t>() : uint64_t{4096};
    const RopeFrequencies frequencies = FrequenciesOf(group->rope, {tokens, 0}, RopeSemantics::kHf);
    const std::string where = name + ", " + layer_type + " at " + std::to_string(tokens);
    EXPECT_EQ(DependsOnLength(group->rope, RopeSemantics::kHf), by_length) << where;
    ExpectNear(frequencies.inv_freq, record["inv_freq"], where);
    EXPECT_LE(Error(frequencies.attention_factor, record["attention_factor"].get<double>()), kRelative)
        << where;
    EXPECT_LE(Error(frequencies.softmax_scale_multiplier, record.value("softmax_scale_multiplier", 1.0)),
              kRelative)
        << where;
    EXPECT_EQ(group->rope.base, record["base"].get<double>()) << where;
    EXPECT_EQ(group->pairing, record["pairing_hf"].get<std::string>()) << where;
    const bool proportional = group->rope.type == RopeType::kProportional;
    EXPECT_EQ(proportional ? group->rope.d_head : group->rope.d_rot, record["rope_dim"].get<size_t>())
        << where;
    ++walked;
  }
  EXPECT_GT(walked, 40u);
}

TEST(RopeReferenceTest, ModelsThatDoNotTurnHaveNoBands) {
  const Json truth = Read("rope/truth.json");
  if (truth.is_null())
    GTEST_SKIP() << "no " << Shared("rope/truth.json") << "; set ROPELINE_SHARED to its folder";
  for (const Json& record : truth["no_rope"]) {
    const std::string name = record["name"];
    const auto path = Shared(("configs/" + name + "/config.json").c_str());
    if (std::filesystem::exists(path)) EXPECT_TRUE(RopeLayersOf(ReadHfConfig(path.string())).empty()) << name;
  }
}

}  // namespace
}  // namespace ropeline
