// Published config.json files are right, as far as their publishers go: an error here is a false one, unless
// this table says why it is none. The same for warnings.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "model/lint_change.h"
#include "model/lint_source.h"

namespace ropeline {
namespace {

namespace fs = std::filesystem;

struct Defended {
  const char* why;
  std::set<std::string> checks;
};

// No error is defended: there is none.
const std::map<std::string, Defended>& Errors() {
  static const auto* const errors = new std::map<std::string, Defended>;
  return *errors;
}

const std::map<std::string, Defended>& Warnings() {
  static const auto* const warnings = new std::map<std::string, Defended>{
      {"chinese-alpaca-2-13b-16k",
       {"its vocabulary of 55,296 is of no family that is known here, and it has no rope_theta",
        {"theta_missing"}}},
      {"gemma-4-e2b-it",
       {"the full layers' base of 1e6 stands in rope_parameters alone: older readers take 10000",
        {"v5_nesting"}}},
      {"qwen3.5-0.8b",
       {"its base of 1e7 stands in rope_parameters alone: older readers take 10000", {"v5_nesting"}}}};
  return *warnings;
}

bool IsDefended(const std::map<std::string, Defended>& table, const std::string& name,
                const std::string& check) {
  const auto it = table.find(name);
  return it != table.end() && it->second.checks.count(check) > 0;
}

TEST(LintPublishedTest, NoFalseErrors) {
  const char* shared = std::getenv("ROPELINE_SHARED");
  const fs::path root = fs::path(shared != nullptr ? shared : ROPELINE_SOURCE_DIR "/../shared") / "configs";
  if (!fs::is_directory(root)) GTEST_SKIP() << "no " << root << "; set ROPELINE_SHARED to its folder";
  size_t files = 0;
  std::set<std::string> warned;
  for (const auto& entry : fs::directory_iterator(root)) {
    const fs::path config = entry.path() / "config.json";
    if (!fs::exists(config)) continue;
    ++files;
    const std::string name = entry.path().filename().string();
    const LintSource source = OpenLintSource(config.string(), {"test", ""});
    EXPECT_EQ(source.refusal, "") << name;
    for (const Finding& finding : LintOne(source, {})) {
      const std::string text = name + " [" + finding.check + "] " + finding.evidence;
      if (finding.severity == Severity::kError)
        EXPECT_TRUE(IsDefended(Errors(), name, finding.check)) << text;
      if (finding.severity != Severity::kWarning) continue;
      EXPECT_TRUE(IsDefended(Warnings(), name, finding.check)) << text;
      warned.insert(name);
    }
  }
  EXPECT_GT(files, 40u);
  // A defence that nothing needs is stale.
  for (const auto& [name, defended] : Warnings())
    EXPECT_TRUE(warned.count(name)) << name << ": " << defended.why;
}

}  // namespace
}  // namespace ropeline
