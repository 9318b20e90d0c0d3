// Which schedule turned a set of keys.
#ifndef ROPELINE_MODEL_ROPE_IDENTIFY_H_
#define ROPELINE_MODEL_ROPE_IDENTIFY_H_

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kernels/rope_schedule.h"
#include "model/rope_check.h"
#include "model/rope_estimate.h"

namespace ropeline {

struct ScheduleFit {
  std::string name;  // "default", "linear", "yarn", "llama3", or of a model's layers
  RopeParameters rope;
  std::vector<double> inv_freq;
  double chi2 = 0;       // Σ ((measured − fitted)/σ)²
  double criterion = 0;  // chi2 + (free numbers)·ln(bands): the least is the best
};

struct RopeIdentification {
  MeasuredRotation measured;
  size_t usable_bands = 0;        // measured to better than a tenth
  std::vector<ScheduleFit> fits;  // best first
  bool convincing = false;        // the best one fits within the measurement's error: chi2 < 3 a band
  // "base 82685 is that of NTK with base 10000 and factor 8"; "" where no such pair comes near.
  std::string remark;
};

// Fits default (base), linear (base, s), yarn (base, s, original context; betas 32 and 1, bounds rounded) and
// llama3 (base, s, original context; factors 1 and 4), contexts out of the powers of two from 1024 to
// 131,072, base and s free. `model`: the layers of a model to hold beside them, without any freedom, as hf
// and as ggml reads them; may be empty. The last position chooses between a model's lists.
RopeIdentification IdentifyRope(const KeyDump& dump, const std::vector<RopeLayers>& model);

// "yarn: base 1e+06, factor 4, original context 32,768".
std::string ScheduleText(const ScheduleFit& fit);

// Keys are stable: add, never rename.
nlohmann::ordered_json IdentificationJson(const RopeIdentification& identification);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ROPE_IDENTIFY_H_
