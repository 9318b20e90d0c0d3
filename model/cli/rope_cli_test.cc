// `ropeline rope` and `ropeline lint` as programs: numbers that must come out, exit codes, bad input.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "model/fake_gguf.h"
#include "model/fake_results.h"

namespace ropeline {
namespace {

struct Outcome {
  int exit_code = -1;
  std::string out, err;
};

class RopeCliTest : public testing::Test {
 protected:
  RopeCliTest()
      : folder_("rope_cli_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name())) {}

  static std::string Text(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }

  Outcome Run(const std::string& arguments) {
    const std::string out = folder_.Path("out"), err = folder_.Path("err");
    const std::string command = "XDG_DATA_HOME='" + folder_.Path("data") + "' '" ROPELINE_BINARY "' " +
                                arguments + " >'" + out + "' 2>'" + err + "'";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, Text(out), Text(err)};
  }

  void ExpectRefused(const std::string& arguments, const std::string& part) {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_NE(outcome.err.find(part), std::string::npos) << arguments << "\n" << outcome.err;
  }

  // n keys of one token in d dimensions, turned by base^(−2i/d), as numpy.save writes them.
  std::string Keys(const std::string& name, size_t n, size_t d, double base) {
    std::vector<float> keys(n * d);
    for (size_t t = 0; t < n; ++t) {
      for (size_t i = 0; i < d / 2; ++i) {
        const double angle =
            static_cast<double>(t) * std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(d));
        keys[t * d + i] = static_cast<float>(std::cos(angle));
        keys[t * d + i + d / 2] = static_cast<float>(std::sin(angle));
      }
    }
    const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(n) +
                               ", " + std::to_string(d) + "), }\n";
    std::string bytes = std::string("\x93NUMPY\x01\0", 8) + static_cast<char>(header.size()) + '\0' + header;
    const size_t at = bytes.size();
    bytes.resize(at + keys.size() * sizeof(float));
    std::memcpy(bytes.data() + at, keys.data(), keys.size() * sizeof(float));
    return folder_.Write(name, bytes);
  }

  std::string Config(const std::string& name, double theta, const std::string& more = "") {
    std::ostringstream text;
    text << R"({"model_type": "llama", "vocab_size": 32000, "hidden_size": 256, "num_attention_heads": 4,
                "num_key_value_heads": 4, "num_hidden_layers": 2, "intermediate_size": 512,
                "max_position_embeddings": 4096, "rope_theta": )"
         << theta << more << "}";
    return folder_.Write(name, text.str());
  }

  TemporaryFolder folder_;
};

constexpr const char* kArticle = "rope --d 128 --base 10000 --train 4096 --context 32k";

// DESIGN section 5, as a reader sees it.
TEST_F(RopeCliTest, TheArticlesNumbers) {
  const Outcome outcome = Run(std::string(kArticle) + " --extend 32k");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* part : {"1.1548e-4", "54,410", "652 turns", "0.473 rad (27.1°)", "3.784 rad (216.8°)",
                           "87.5 %", "base 82,684.6", "the last ÷ 8", "position 32,767 → 4,095.9",
                           "1.2079 = 0.1·ln(8) + 1", "18 of 64 (28.1 %)"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\n" << outcome.out;
  }
}

TEST_F(RopeCliTest, ATypedScheduleInJson) {
  const Outcome outcome =
      Run("rope --d 128 --base 10000 --train 4096 --method yarn --factor 8 --context 32768 --set "
          "beta_fast=32 --json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["context"], 32768);
  EXPECT_EQ(json["semantics"], "hf");
  const auto& layer = json["layers"][0];
  EXPECT_EQ(layer["rope_type"], "yarn");
  EXPECT_EQ(layer["inv_freq"].size(), 64u);
  EXPECT_NEAR(layer["inv_freq"][30].get<double>(), 8.847401809545132e-3, 1e-15);
  EXPECT_EQ(layer["bands"].size(), 64u);
  EXPECT_EQ(layer["bands"][63]["i"], 63);

  const Outcome paper =
      Run("rope --d 128 --base 10000 --train 4096 --method yarn --factor 8 --semantics paper --json");
  ASSERT_EQ(paper.exit_code, 0) << paper.err;
  EXPECT_NEAR(nlohmann::json::parse(paper.out)["layers"][0]["inv_freq"][30].get<double>(), 4.563e-3, 5e-7);
}

TEST_F(RopeCliTest, AModelByAnyName) {
  const Outcome preset = Run("rope llama-3.1-8b --json");
  ASSERT_EQ(preset.exit_code, 0) << preset.err;
  EXPECT_EQ(nlohmann::json::parse(preset.out)["layers"][0]["rope_type"], "llama3");
  const Outcome file = Run("rope '" + Config("config.json", 10000) + "' --bands");
  ASSERT_EQ(file.exit_code, 0) << file.err;
  EXPECT_EQ(std::count(file.out.begin(), file.out.end(), '\n'), 9 + 1 + 2 + 32) << file.out;
  const Outcome extended = Run("rope mistral-7b --extend 64k --method yarn,pi --json");
  ASSERT_EQ(extended.exit_code, 0) << extended.err;
  EXPECT_EQ(nlohmann::json::parse(extended.out)["extend"]["methods"].size(), 3u);
}

TEST_F(RopeCliTest, IdentifiesKeys) {
  const std::string keys = Keys("keys.npy", 512, 64, 500000);
  const Outcome outcome = Run("rope --identify '" + keys + "' --positions 0:512 --json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["fits"][0]["rope_type"], "default");
  EXPECT_NEAR(json["fits"][0]["base"].get<double>() / 500000, 1, 0.01);
  EXPECT_EQ(json["pairing"], "half");
  const Outcome text = Run("rope --identify '" + keys + "' --positions 0:512");
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_EQ(text.out.rfind("default: base 5", 0), 0u) << text.out;
}

TEST_F(RopeCliTest, RopeRefusesWhatItCannotAnswer) {
  ExpectRefused("rope", "no model is named, expected MODEL, or --d and --base");
  ExpectRefused("rope --d 128", "no model is named");
  ExpectRefused("rope --d 128 --base 10000", "--context: is missing");
  ExpectRefused("rope --d 128 --base x --train 4k", "--base: \"x\" is not a number");
  ExpectRefused("rope --d 128 --base 0.5 --train 4k", "base: is 0.5");
  ExpectRefused("rope --d 128 --base 10000 --train 4k --method yarn", "factor: is missing");
  ExpectRefused("rope --d 128 --base 10000 --train 4k --method spline", "\"spline\" is not known");
  ExpectRefused(std::string(kArticle) + " --extend 64k --method spline",
                "\"spline\" is not an extension method");
  ExpectRefused(std::string(kArticle) + " --set beta=1", "\"beta\" is not a rotary parameter");
  ExpectRefused(std::string(kArticle) + " --semantics vllm", "--semantics: \"vllm\"");
  ExpectRefused(std::string(kArticle) + " --pairing both", "--pairing: \"both\"");
  ExpectRefused("rope --d 128 --base 10000 --context 4k --extend 8k", "the trained context is not known");
  ExpectRefused("rope gpt2", "rotates nothing: its positions are learned");
  ExpectRefused("rope llama-3.1-8b --d 64", "--d: is given beside a model");
  ExpectRefused("rope llama-3.1-8b --method yarn", "--method: is given without --extend");
  const std::string keys = Keys("keys.npy", 8, 4, 100);
  ExpectRefused("rope --identify '" + keys + "'", "--positions: is given 0 times for 1 files");
  ExpectRefused("rope --identify '" + keys + "' --positions 0:9", "has 8 keys for 9 positions");
  ExpectRefused("rope --identify '" + keys + "' --positions 5,5,5,5,5,5,5,5", "are all alike");
  ExpectRefused("rope --identify '" + keys + "' --positions 8:0", "is no range");
  ExpectRefused("rope --identify '" + keys + "' --positions 1,-2", "\"-2\" is not a position");
  ExpectRefused("rope --identify /nowhere.npy --positions 0:8", "/nowhere.npy: cannot be read");
  ExpectRefused("rope --identify '" + Config("a.json", 1e4) + "' --positions 0:8", "is not a .npy file");
}

TEST_F(RopeCliTest, LintsExitCodeSaysTheWorst) {
  const Outcome good = Run("lint '" + Config("good.json", 10000) + "'");
  EXPECT_EQ(good.exit_code, 0) << good.out << good.err;
  const Outcome warned = Run("lint '" + Config("warned.json", 777777) + "'");
  EXPECT_EQ(warned.exit_code, 1) << warned.out;
  EXPECT_NE(warned.out.find("warning: "), std::string::npos);
  EXPECT_EQ(warned.err, "");
  const Outcome bad =
      Run("lint '" + Config("bad.json", 10000, R"(, "rope_scaling": {"rope_type": "yarn", "factor": 8})") +
          "' --json");
  EXPECT_EQ(bad.exit_code, 2) << bad.err;
  const nlohmann::json json = nlohmann::json::parse(bad.out);
  EXPECT_EQ(json["findings"][0]["severity"], "error");
  EXPECT_EQ(json["findings"][0]["check"], "original_missing");
  EXPECT_EQ(json["exit_code"], 2);
  EXPECT_EQ(json["other"], nullptr);
}

TEST_F(RopeCliTest, LintSaysWhatAChangeInvalidatesAndWhatItCosts) {
  const std::string before = Config("old.json", 10000), after = Config("new.json", 20000);
  const std::string machine = folder_.Write("bench.json", FakeResults().dump());
  const Outcome outcome =
      Run("lint '" + before + "' '" + after + "' --cached 2k --machine '" + machine + "' --json");
  EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
  const nlohmann::json json = nlohmann::json::parse(outcome.out);
  const auto& change = json["changes"][0];
  EXPECT_EQ(change["invalidation"]["cached"], 2048);
  EXPECT_GT(change["invalidation"]["wrong_keys"].get<double>(), 1900);
  EXPECT_EQ(change["bands"].size(), 31u);  // band 0 is 1 at any base
  EXPECT_TRUE(json.contains("upkeep"));
  const Outcome text = Run("lint '" + before + "' --runtime rope_freq_base=20000 --cached 2k");
  EXPECT_EQ(text.exit_code, 2);
  EXPECT_NE(text.out.find("cached keys"), std::string::npos) << text.out;
}

TEST_F(RopeCliTest, LintRefusesWhatIsNoModel) {
  ExpectRefused("lint", "MODEL is required");
  ExpectRefused("lint nosuchmodel", "nosuchmodel");
  ExpectRefused("lint '" + folder_.Write("cut.json", "{\"model_type\": ") + "'", "cut.json");
  ExpectRefused("lint '" + folder_.Write("list.json", "[1]") + "'", "list.json");
  const std::string good = Config("good.json", 10000);
  ExpectRefused("lint '" + good + "' --runtime theta", "\"theta\" sets nothing");
  ExpectRefused("lint '" + good + "' --runtime colour=red", "\"colour\" is not a rotary parameter");
  ExpectRefused("lint '" + good + "' --cached 1k", "--cached: is given and nothing changes");
  ExpectRefused("lint '" + good + "' --runtime factor=2 --cached 1k --machine /nowhere", "/nowhere");
}

}  // namespace
}  // namespace ropeline
