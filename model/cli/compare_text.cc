#include "model/cli/compare_text.h"

#include <fmt/format.h>

#include "model/cli/compare_sections.h"

namespace ropeline {

std::string CompareText(const CompareRequest& request, const Machine& machine, const Comparison& comparison) {
  const std::string model = ModelText(request);
  std::string text = fmt::format("# Position encodings on {}\n\n",
                                 machine.cpu_model.empty() ? "this machine" : machine.cpu_model);
  text += fmt::format("## Why rotary won, at a glance: {}\n\n", model);
  text += PrefillGlance(request, comparison) + "\n" + DecodeGlance(request, comparison);
  text += RejectedText(request, comparison);
  text += "\n## The law of each encoding\n\n" + LawsText(comparison);
  text += "\n## Measured, beside the limit\n\n" + RowsText(request, comparison);
  if (const std::string ways = WaysText(comparison); !ways.empty()) text += "\n## Ways to pay\n\n" + ways;
  text +=
      fmt::format("\n## Bytes moved by a whole prefill of {}\n\n", model) + MovedText(request, comparison);
  text += fmt::format("\n## Share of a layer of {}: prefill of n tokens\n\n", model);
  text += SharesText(comparison, Phase::kPrefill);
  text += fmt::format("\n## Share of a layer of {}: one decode step with n tokens in the cache\n\n", model);
  text += SharesText(comparison, Phase::kDecode);
  text += fmt::format(
      "\nScore biases are counted as a pass over scores that stand in memory, one {} each; an attention "
      "kernel that adds the bias while scores are in registers moves none of these bytes. Expected: the "
      "measured time where a row has this very shape; otherwise (≈) at the limit × the measured ratio, never "
      "below the limit; without any row (≥) the limit.\n"
      "\n\"Beside it\": the layer's matrices and attention at the limit; for an encoding that is added at "
      "the input, the whole pass.\n\n## Inputs\n\n",
      DtypeName(request.dtype));
  return text + InputsText(request, machine, comparison);
}

}  // namespace ropeline
