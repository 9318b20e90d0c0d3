#include "model/engine/row_check.h"

#include <algorithm>
#include <cmath>

namespace ropeline {
namespace {

// "" where the row is usable.
std::string WhyUnusable(const RunRow& row) {
  if (!std::isfinite(row.tok_per_s)) return "the speed is not a number";
  const uint64_t timed = row.n_prompt + row.n_generated;
  if (timed == 0 || row.n_sequences == 0) return "no token is timed";
  if (row.tok_per_s <= 0) return "the speed is zero or below";
  if (!kTokPerSecond.Has(row.tok_per_s)) return "the speed is outside 1e-6 to 1e8 tokens per second";
  if (row.n_kv > kMaxTokens || timed > kMaxTokens || row.n_sequences > kMaxTokens)
    return "more tokens than any model has room for";
  return "";
}

}  // namespace

void RowCheck::Add(const RunRow& row) {
  const std::string reason = WhyUnusable(row);
  if (!reason.empty()) return LeaveOut(reason, row.line);
  run_.rows.push_back(row);
  std::optional<double>& spread = run_.rows.back().stddev_tok_per_s;
  if (spread && !(std::isfinite(*spread) && *spread >= 0)) spread.reset();
}

void RowCheck::LeaveOut(const std::string& reason, size_t line) {
  const auto known = std::find_if(reasons_.begin(), reasons_.end(),
                                  [&](const Reason& other) { return other.text == reason; });
  if (known == reasons_.end()) {
    reasons_.push_back({reason, 1, line});
  } else {
    ++known->rows;
  }
}

void RowCheck::Finish() {
  for (const Reason& reason : reasons_) {
    std::string text = std::to_string(reason.rows) + (reason.rows == 1 ? " row" : " rows") + " left out";
    if (reason.first_line != 0) {
      text +=
          (reason.rows == 1 ? " (line " : " (the first in line ") + std::to_string(reason.first_line) + ")";
    }
    run_.warnings.push_back(text + ": " + reason.text);
  }
  reasons_.clear();
}

}  // namespace ropeline
