// Which rows of a benchmark's output can be believed.
#ifndef ROPELINE_MODEL_ENGINE_ROW_CHECK_H_
#define ROPELINE_MODEL_ENGINE_ROW_CHECK_H_

#include <string>
#include <vector>

#include "model/engine/engine_run.h"
#include "model/units.h"

namespace ropeline {

// Tokens per second of one row; beyond, a unit was mixed up or a clock stood still.
inline constexpr Range kTokPerSecond{1e-6, 1e8};

// Collects the usable rows of a run, and what was left out by reason.
class RowCheck {
 public:
  explicit RowCheck(EngineRun* run) : run_(*run) {}

  void Add(const RunRow& row);
  // A row that is no RunRow at all. `reason` as in "the speed is not a number".
  void LeaveOut(const std::string& reason, size_t line);
  // Writes one warning per reason. To be called once, after the last row.
  void Finish();

 private:
  struct Reason {
    std::string text;
    size_t rows = 0;
    size_t first_line = 0;
  };

  EngineRun& run_;
  std::vector<Reason> reasons_{};
};

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ENGINE_ROW_CHECK_H_
