// Ways of taking a rotary model to a longer context than it was trained for.
#ifndef ROPELINE_MODEL_ROPE_EXTENSION_H_
#define ROPELINE_MODEL_ROPE_EXTENSION_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/rope_frequencies.h"
#include "model/bad_input.h"
#include "model/rope_coverage.h"

namespace ropeline {

struct ExtensionMethod {
  const char* name;  // as on the command line: "pi"
  RopeType type;
  const char* rule;         // what it does to the bands, one line
  const char* fine_tuning;  // whether it usually needs one, with its source
};
// none, pi, ntk, dynamic, yarn, llama3, longrope.
const std::vector<ExtensionMethod>& ExtensionMethods();

// Names separated by commas, or "all". "none", the schedule left as trained, always stands first. Throws
// BadInput.
std::vector<const ExtensionMethod*> ParseExtensionMethods(std::string_view text, const Where& where);

struct Extension {
  const ExtensionMethod* method = nullptr;
  RopeParameters rope;
  RopeFrequencies frequencies;
  std::vector<RopeBand> bands;
  RopeCoverage coverage;
  std::optional<double> effective_base{};  // where the base does it all
  std::string note;                        // what this method does at these numbers
  std::string missing;                     // not empty: why there are no frequencies
};

// `trained` holds the ladder (d_head, d_rot, base), its context, and the options that a method may read
// (betas, factors, lists); its type and factor do not matter. A factor that was set by hand is `factor`; else
// it is context / trained context. dynamic's own factor is 1 then, which makes it NTK at the full length.
Extension Extend(const ExtensionMethod& method, const RopeParameters& trained, double context,
                 std::optional<double> factor, RopeSemantics semantics);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ROPE_EXTENSION_H_
