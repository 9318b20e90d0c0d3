#include "model/rope_check.h"

#include <algorithm>
#include <string_view>

namespace ropeline {
namespace {

const char* PairingOf(std::string_view encoding) {
  return encoding.find("interleaved") == std::string_view::npos ? "half" : "interleaved";
}

bool Rotates(const Layer& layer) {
  return layer.stack == Stack::kDecoder && layer.self.kind != AttentionKind::kNone &&
         layer.self.position.d_rot() > 0;
}

// "all" where no other layer of the decoder mixes tokens; a kind of attention where it is of that kind alone.
std::string TypeOf(const Llm& llm, const std::vector<size_t>& group) {
  const auto mixing = std::count_if(llm.layers.begin(), llm.layers.end(), [](const Layer& layer) {
    return layer.stack == Stack::kDecoder &&
           (layer.self.kind != AttentionKind::kNone || layer.cross.kind != AttentionKind::kNone ||
            !layer.recurrent.empty());
  });
  if (group.size() == static_cast<size_t>(mixing)) return "all";
  const AttentionKind kind = llm.layers[group.front()].self.kind;
  const bool one_kind =
      std::all_of(group.begin(), group.end(), [&](size_t i) { return llm.layers[i].self.kind == kind; });
  if (one_kind && kind == AttentionKind::kWindow) return "sliding_attention";
  const bool full = kind == AttentionKind::kFull || kind == AttentionKind::kMla;
  // Layers that turn and layers that do not may both be full: then the kind does not tell them apart.
  const bool all_of_kind = std::none_of(llm.layers.begin(), llm.layers.end(), [&](const Layer& layer) {
    return layer.stack == Stack::kDecoder && layer.self.kind == kind && !Rotates(layer);
  });
  return one_kind && full && all_of_kind ? "full_attention" : "rope_layers";
}

}  // namespace

bool SameSchedule(const RopeParameters& a, const RopeParameters& b) {
  const auto numbers = [](const RopeParameters& p) {
    return std::vector<double>{static_cast<double>(p.type),
                               static_cast<double>(p.d_head),
                               static_cast<double>(p.d_rot),
                               p.base,
                               ExtensionFactor(p),
                               p.original_context,
                               p.max_context,
                               p.attention_factor.value_or(-1),
                               p.beta_fast.value_or(-1),
                               p.beta_slow.value_or(-1),
                               p.mscale.value_or(-1),
                               p.mscale_all_dim.value_or(-1),
                               p.truncate ? 1.0 : 0.0,
                               p.low_freq_factor,
                               p.high_freq_factor,
                               p.short_mscale.value_or(-1),
                               p.long_mscale.value_or(-1)};
  };
  return numbers(a) == numbers(b) && a.short_factor == b.short_factor && a.long_factor == b.long_factor &&
         a.freq_factors == b.freq_factors;
}

std::vector<RopeLayers> RopeLayersOf(const Llm& llm) {
  std::vector<RopeLayers> groups;
  for (size_t i = 0; i < llm.layers.size(); ++i) {
    if (!Rotates(llm.layers[i])) continue;
    const Position& position = llm.layers[i].self.position;
    const char* pairing = PairingOf(position.encoding);
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const RopeLayers& other) {
      return other.pairing == pairing && SameSchedule(other.rope, position.rope);
    });
    if (group == groups.end()) {
      groups.push_back({"", {i}, pairing, position.rope});
    } else {
      group->layers.push_back(i);
    }
  }
  for (RopeLayers& group : groups) group.layer_type = TypeOf(llm, group.layers);
  return groups;
}

RopeReport CheckRope(const RopeLayers& layers, const RopeLength& length, RopeSemantics semantics,
                     const Where& where) {
  if (const auto problem = FindRopeProblem(layers.rope)) {
    throw BadInput({where.file, problem->key}, problem->wrong, problem->expected);
  }
  RopeReport report;
  report.layers = layers;
  report.trained_tokens = TrainedContext(layers.rope);
  report.frequencies = FrequenciesOf(layers.rope, length, semantics);
  const auto context = static_cast<double>(length.tokens);
  report.bands = RopeBands(UnscaledInvFreq(layers.rope), report.frequencies.inv_freq,
                           report.trained_tokens > 0 ? report.trained_tokens : context, context);
  report.coverage = Summarise(report.bands);
  return report;
}

const RopeReport* FarReaching(const std::vector<RopeReport>& reports) {
  for (const RopeReport& report : reports) {
    if (report.layers.layer_type != "sliding_attention") return &report;
  }
  return reports.empty() ? nullptr : &reports.front();
}

}  // namespace ropeline
