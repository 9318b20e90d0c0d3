// Planted mistakes: a config that is right, spoiled in one place; the check that must find it, and how bad it
// must call it.
#include "model/lint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "model/lint_change.h"
#include "model/lint_source.h"

namespace ropeline {
namespace {

using Json = nlohmann::json;

Json Plain(const char* model_type, uint64_t vocabulary, double theta, uint64_t max_context) {
  return {{"model_type", model_type},   {"vocab_size", vocabulary}, {"hidden_size", 4096},
          {"num_attention_heads", 32},  {"num_key_value_heads", 8}, {"num_hidden_layers", 2},
          {"intermediate_size", 14336}, {"rope_theta", theta},      {"max_position_embeddings", max_context}};
}

Json Llama31() {
  Json config = Plain("llama", 128256, 500000, 131072);
  config["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", 8},
                            {"low_freq_factor", 1},
                            {"high_freq_factor", 4},
                            {"original_max_position_embeddings", 8192}};
  return config;
}

Json Qwen3() { return Plain("qwen3", 151936, 1e6, 40960); }

Json Yarn() {
  Json config = Plain("qwen3", 151936, 1e6, 131072);
  config["rope_scaling"] = {
      {"rope_type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 32768}};
  return config;
}

Json Phi3() {
  Json config = Plain("phi3", 32064, 10000, 131072);
  config["hidden_size"] = 3072;  // heads of 96: 48 pairs
  config["num_key_value_heads"] = 32;
  config["original_max_position_embeddings"] = 4096;
  config["rope_scaling"] = {{"type", "longrope"},
                            {"short_factor", std::vector<double>(48, 1.1)},
                            {"long_factor", std::vector<double>(48, 16)}};
  return config;
}

Json Phi2() {
  Json config = Plain("phi", 51200, 10000, 2048);
  config["hidden_size"] = 2560;
  config["num_key_value_heads"] = 32;
  config["intermediate_size"] = 10240;
  config["partial_rotary_factor"] = 0.4;
  return config;
}

Json Nested() {
  Json config = Qwen3();
  config.erase("rope_theta");
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1e6}};
  return config;
}

Json Gemma4() {
  Json config = Plain("qwen3", 151936, 0, 40960);
  config.erase("rope_theta");
  config["layer_types"] = {"sliding_attention", "full_attention"};
  config["sliding_window"] = 512;
  config["rope_parameters"] = {{"full_attention",
                                {{"rope_type", "yarn"},
                                 {"rope_theta", 1e6},
                                 {"factor", 4},
                                 {"truncate", false},
                                 {"original_max_position_embeddings", 10240}}},
                               {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 10000}}}};
  return config;
}

std::vector<Finding> Findings(const Json& config, const std::vector<std::string>& runtime = {},
                              double cached = 0) {
  return Lint(LintSourceOf(config, "config.json"), nullptr, ParseLintRuntime(runtime, {"test", "--runtime"}),
              cached)
      .findings;
}

std::string Text(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    text += std::string(SeverityName(finding.severity)) + " [" + finding.check + "] " + finding.evidence +
            "; " + finding.consequence + "\n";
  }
  return text;
}

bool Has(const std::vector<Finding>& findings, Severity severity, const std::string& check) {
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) {
    return finding.severity == severity && finding.check == check;
  });
}

TEST(LintTest, WhatIsRightHasNoErrorsAndNoWarnings) {
  for (const Json& config : {Llama31(), Qwen3(), Yarn(), Phi3(), Phi2()}) {
    const std::vector<Finding> findings = Findings(config);
    EXPECT_EQ(Count(findings, Severity::kError) + Count(findings, Severity::kWarning), 0u)
        << config["model_type"] << "\n"
        << Text(findings);
    EXPECT_EQ(LintExitCode(findings), 0);
  }
}

struct Planted {
  const char* mistake;
  Json config;
  std::vector<std::string> runtime;
  Severity severity;
  const char* check;
};

Json Spoiled(Json config, const std::function<void(Json&)>& spoil) {
  spoil(config);
  return config;
}

std::vector<Planted> PlantedMistakes() {
  const auto error = Severity::kError, warning = Severity::kWarning, note = Severity::kNote;
  const auto scaling = [](const char* key, const Json& value) {
    return [key, value](Json& c) { c["rope_scaling"][key] = value; };
  };
  const auto without = [](const char* key) { return [key](Json& c) { c["rope_scaling"].erase(key); }; };
  return {
      {"theta of another model",
       Spoiled(Llama31(), [](Json& c) { c["rope_theta"] = 10000; }),
       {},
       error,
       "theta_family"},
      {"theta lost", Spoiled(Llama31(), [](Json& c) { c.erase("rope_theta"); }), {}, error, "theta_missing"},
      {"theta changed by a fine-tune",
       Spoiled(Llama31(), [](Json& c) { c["rope_theta"] = 8e6; }),
       {},
       warning,
       "theta_family"},
      {"theta lost by an unknown model",
       Spoiled(Plain("newmodel", 50000, 1e6, 4096), [](Json& c) { c.erase("rope_theta"); }),
       {},
       warning,
       "theta_missing"},
      {"theta as a text",
       Spoiled(Llama31(), [](Json& c) { c["rope_theta"] = "500000"; }),
       {},
       error,
       "theta_value"},
      {"theta in two places, unlike",
       Spoiled(Llama31(), [](Json& c) { c["rope_scaling"]["rope_theta"] = 10000; }),
       {},
       error,
       "theta_twice"},
      {"scaling dropped",
       Spoiled(Llama31(), [](Json& c) { c.erase("rope_scaling"); }),
       {},
       error,
       "scaling_dropped"},
      {"v5 nesting", Nested(), {}, warning, "v5_nesting"},
      {"v5 nesting, read by a v4 reader", Nested(), {"reader=v4"}, error, "v5_nesting"},
      {"v4 scaling, read by a v5 reader", Llama31(), {"reader=v5"}, error, "v4_scaling"},
      {"two scalings, unlike",
       Spoiled(Llama31(),
               [](Json& c) {
                 c["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 500000}};
               }),
       {},
       error,
       "scaling_twice"},
      {"type and rope_type unlike", Spoiled(Yarn(), scaling("type", "linear")), {}, error, "type_twice"},
      {"unknown type", Spoiled(Yarn(), scaling("rope_type", "yarm")), {}, error, "type_unknown"},
      {"no type", Spoiled(Yarn(), without("rope_type")), {}, error, "type_missing"},
      {"factor with a digit too many", Spoiled(Yarn(), scaling("factor", 40)), {}, error, "factor_product"},
      {"maximum not raised",
       Spoiled(Yarn(), [](Json& c) { c["max_position_embeddings"] = 32768; }),
       {},
       warning,
       "factor_product"},
      {"factor misspelt",
       Spoiled(Llama31(),
               [](Json& c) {
                 c["rope_scaling"].erase("factor");
                 c["rope_scaling"]["facter"] = 8;
               }),
       {},
       error,
       "factor_missing"},
      {"a key misspelt", Spoiled(Yarn(), scaling("beta_fats", 16)), {}, warning, "key_unknown"},
      {"factor below 1", Spoiled(Yarn(), scaling("factor", 0.25)), {}, error, "factor_value"},
      {"yarn without the original context",
       Spoiled(Yarn(), without("original_max_position_embeddings")),
       {},
       error,
       "original_missing"},
      {"original context twice, unlike",
       Spoiled(Yarn(), [](Json& c) { c["original_max_position_embeddings"] = 4096; }),
       {},
       error,
       "original_twice"},
      {"contexts swapped",
       Spoiled(Yarn(),
               [](Json& c) {
                 c["max_position_embeddings"] = 32768;
                 c["rope_scaling"]["original_max_position_embeddings"] = 131072;
               }),
       {},
       error,
       "original_above"},
      {"longrope list too short",
       Spoiled(Phi3(), [](Json& c) { c["rope_scaling"]["long_factor"] = std::vector<double>(32, 16); }),
       {},
       error,
       "longrope_lists"},
      {"longrope list lost", Spoiled(Phi3(), without("short_factor")), {}, error, "longrope_lists"},
      {"partial rotary lost",
       Spoiled(Phi2(), [](Json& c) { c.erase("partial_rotary_factor"); }),
       {},
       error,
       "partial_lost"},
      {"partial rotary twice, unlike",
       Spoiled(Phi2(), [](Json& c) { c["rotary_dim"] = 80; }),
       {},
       error,
       "partial_twice"},
      {"window present but disabled",
       Spoiled(Qwen3(),
               [](Json& c) {
                 c["sliding_window"] = 4096;
                 c["use_sliding_window"] = false;
               }),
       {},
       note,
       "window_disabled"},
      {"static yarn on short prompts", Yarn(), {"prompt=2k"}, warning, "static_scaling"},
      {"betas reversed",
       Spoiled(Yarn(),
               [](Json& c) {
                 c["rope_scaling"]["beta_fast"] = 1;
                 c["rope_scaling"]["beta_slow"] = 32;
               }),
       {},
       error,
       "betas"},
      {"attention factor of another factor",
       Spoiled(Yarn(), scaling("attention_factor", 1.2079)),
       {},
       warning,
       "attention_factor"},
      {"mscale alone", Spoiled(Yarn(), scaling("mscale", 0.707)), {}, warning, "mscale"},
      {"llama3 factors swapped",
       Spoiled(Llama31(),
               [](Json& c) {
                 c["rope_scaling"]["low_freq_factor"] = 4;
                 c["rope_scaling"]["high_freq_factor"] = 1;
               }),
       {},
       error,
       "llama3_factors"},
      {"truncate within a layer type", Gemma4(), {}, warning, "truncate_nested"},
      {"a layer type without parameters",
       Spoiled(Gemma4(), [](Json& c) { c["rope_parameters"].erase("full_attention"); }),
       {},
       error,
       "layer_type_missing"},
      {"a context that the base cannot tell",
       Plain("newmodel", 50000, 10000, 131072),
       {},
       warning,
       "nominal_context"},
      {"a context far past the schedule",
       Spoiled(Llama31(), [](Json& c) { c["max_position_embeddings"] = 10485760; }),
       {},
       warning,
       "nominal_context"},
      {"served with the default base", Llama31(), {"rope_theta=10000"}, error, "runtime"},
      {"served with another factor", Yarn(), {"factor=2"}, error, "runtime"},
      {"served without scaling", Llama31(), {"rope_scaling=none"}, error, "runtime"},
      {"served in the other layout", Llama31(), {"pairing=interleaved"}, error, "pairing"},
      {"served by an engine that reads it otherwise",
       Spoiled(Yarn(), scaling("truncate", false)),
       {"engine=llama.cpp"},
       warning,
       "engine_semantics"},
      {"served beyond its context", Qwen3(), {"context=64k"}, warning, "context_beyond"},
  };
}

TEST(LintTest, FindsEveryPlantedMistake) {
  const std::vector<Planted> planted = PlantedMistakes();
  EXPECT_GE(planted.size(), 25u);
  for (const Planted& mistake : planted) {
    const std::vector<Finding> findings = Findings(mistake.config, mistake.runtime);
    EXPECT_TRUE(Has(findings, mistake.severity, mistake.check))
        << mistake.mistake << ": expected " << SeverityName(mistake.severity) << " [" << mistake.check
        << "], found\n"
        << Text(findings);
    EXPECT_EQ(LintExitCode(findings), Count(findings, Severity::kError) > 0     ? 2
                                      : Count(findings, Severity::kWarning) > 0 ? 1
                                                                                : 0);
    for (const Finding& finding : findings) {
      EXPECT_FALSE(finding.evidence.empty() || finding.consequence.empty() || finding.remedy.empty())
          << finding.check;
    }
  }
}

// A mistake that is warned of must not be called an error, and the reverse.
TEST(LintTest, WarningsAreNoErrors) {
  for (const Planted& mistake : PlantedMistakes()) {
    if (mistake.severity == Severity::kError) continue;
    const std::vector<Finding> findings = Findings(mistake.config, mistake.runtime);
    EXPECT_EQ(Count(findings, Severity::kError), 0u) << mistake.mistake << "\n" << Text(findings);
  }
}

TEST(LintTest, SaysHowFarOffTheBaseIs) {
  const std::vector<Finding> findings = Findings(Llama31(), {"rope_theta=10000", "context=8k"});
  const auto it = std::find_if(findings.begin(), findings.end(),
                               [](const Finding& finding) { return finding.check == "runtime"; });
  ASSERT_NE(it, findings.end());
  // Base 10000 under llama3's divisors against base 500000 under the same ones.
  EXPECT_NE(it->evidence.find("bands differ"), std::string::npos) << it->evidence;
  EXPECT_NE(it->evidence.find("at 8,192 tokens"), std::string::npos) << it->evidence;
}

TEST(LintTest, AFileThatCannotBeReadIsAnError) {
  Json config = Qwen3();
  config["num_hidden_layers"] = "two";
  EXPECT_TRUE(Has(Findings(config), Severity::kError, "unreadable"));
}

TEST(LintTest, ErrorsStandFirst) {
  Json config = Spoiled(Yarn(), [](Json& c) {
    c["rope_scaling"]["beta_fats"] = 1;
    c["rope_theta"] = 10000;
  });
  const std::vector<Finding> findings = Findings(config);
  for (size_t k = 1; k < findings.size(); ++k) EXPECT_GE(findings[k - 1].severity, findings[k].severity);
  EXPECT_EQ(findings.front().severity, Severity::kError);
}

TEST(LintTest, HostileValuesAreFindingsAndNoCrash) {
  for (
      const char* text :
      {R"({"rope_scaling": "yarn"})", R"({"rope_scaling": [1, 2]})",
       R"({"rope_scaling": {"rope_type": 7, "factor": "x"}})", R"({"rope_theta": -1})",
       R"({"rope_theta": {}})",
       R"({"rope_scaling": {"rope_type": "longrope", "short_factor": [null], "long_factor": {"a": 1}}})",
       R"({"rope_scaling": {"rope_type": "yarn", "factor": 1e308, "original_max_position_embeddings": 1e300}})",
       R"({"rope_scaling": {"rope_type": "llama3", "factor": 0, "low_freq_factor": "a"}})"}) {
    Json config = Qwen3();
    config.update(Json::parse(text));
    const std::vector<Finding> findings = Findings(config);
    EXPECT_GT(Count(findings, Severity::kError), 0u) << text << "\n" << Text(findings);
  }
  // Nothing is said here, which is no mistake.
  for (const char* text : {R"({"rope_scaling": {}})",
                           R"({"rope_parameters": {"full_attention": {}, "sliding_attention": {}}})"}) {
    Json config = Qwen3();
    config.update(Json::parse(text));
    EXPECT_EQ(Count(Findings(config), Severity::kError), 0u) << text;
  }
}

}  // namespace
}  // namespace ropeline
