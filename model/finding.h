// What a check found: how bad, what was seen, what follows from it, and what to do.
#ifndef ROPELINE_MODEL_FINDING_H_
#define ROPELINE_MODEL_FINDING_H_

#include <algorithm>
#include <string>
#include <vector>

namespace ropeline {

enum class Severity {
  kNote,     // true, and worth knowing; nothing to mend
  kWarning,  // wrong for some readers or some uses
  kError,    // positions will be wrong, or cannot be read
};
inline const char* SeverityName(Severity severity) {
  return severity == Severity::kError ? "error" : severity == Severity::kWarning ? "warning" : "note";
}

struct Finding {
  Severity severity = Severity::kNote;
  std::string check;     // stable name of the check: "theta_family"
  std::string source;    // the file or model that it is about
  std::string evidence;  // what was seen, with the keys and numbers
  std::string consequence;
  std::string remedy;
};

inline size_t Count(const std::vector<Finding>& findings, Severity severity) {
  return static_cast<size_t>(std::count_if(findings.begin(), findings.end(), [&](const Finding& finding) {
    return finding.severity == severity;
  }));
}

}  // namespace ropeline

#endif  // ROPELINE_MODEL_FINDING_H_
