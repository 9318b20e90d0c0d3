#include "model/gguf_rope.h"

#include <cmath>

#include "model/hf_keys.h"
#include "model/units.h"

namespace ropeline {
namespace {

double Positive(const GgufKeys& keys, std::string_view name, double number) {
  if (number > 0) return number;
  throw BadInput(keys.WhereIs(name), "is not above 0", "a number above 0");
}

double Base(const GgufKeys& keys, const GgufArch& arch, bool window_layer) {
  constexpr const char* kBase = "rope.freq_base";
  constexpr const char* kWindowBase = "rope.freq_base_swa";
  const auto checked = [&](const char* name, double base) {
    if (base >= 1 && base <= 1e15) return base;
    throw BadInput(keys.WhereIs(name), "is no base", "a number from 1 to 1e15");
  };
  if (window_layer) {
    if (const auto base = keys.FindNumber(kWindowBase)) return checked(kWindowBase, *base);
    if (arch.window_base > 0) {
      keys.NoteFilled(kWindowBase, FormatCount(static_cast<uint64_t>(arch.window_base)));
      return arch.window_base;
    }
  }
  if (const auto base = keys.FindNumber(kBase)) return checked(kBase, *base);
  keys.NoteFilled(kBase, "10000");
  return 10000;
}

// attention_factor stays as the file has it: llama.cpp multiplies it by yarn's own (RopeSemantics::kGgml).
void ReadYarn(const GgufKeys& keys, Position* position) {
  RopeParameters& rope = position->rope;
  if (const auto beta = keys.FindNumber("rope.scaling.yarn_beta_fast")) rope.beta_fast = beta;
  if (const auto beta = keys.FindNumber("rope.scaling.yarn_beta_slow")) rope.beta_slow = beta;
  auto factor = keys.FindNumber("rope.scaling.yarn_attn_factor");
  if (!factor) factor = keys.FindNumber("rope.scaling.attn_factor");
  if (factor && *factor > 0 && *factor != 1) rope.attention_factor = *factor;
  const auto log_multiplier = keys.FindNumber("rope.scaling.yarn_log_multiplier");
  if (!log_multiplier || *log_multiplier == 0) return;
  rope.mscale = rope.mscale_all_dim = *log_multiplier * 10;
  const double scale = *log_multiplier * std::log(rope.factor) + 1;
  if (rope.factor > 1) position->score_factor = scale * scale;
}

void ReadScaling(const GgufKeys& keys, Position* position) {
  RopeParameters& rope = position->rope;
  const std::string type = keys.FindText("rope.scaling.type").value_or("linear");
  const char* name = keys.Has("rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear";
  const auto factor = keys.FindNumber(name);
  if (factor && *factor != 0) {
    rope.factor = Positive(keys, name, *factor);
    rope.factor_given = true;
  }
  rope.original_context =
      static_cast<double>(keys.CountOr({"rope.scaling.original_context_length", 0, kMostTokens}, 0));
  if (type == "none") return;
  if (type == "longrope") {
    rope.type = RopeType::kLongrope;
  } else if (type == "yarn") {
    rope.type = RopeType::kYarn;
    if (rope.original_context == 0) rope.original_context = rope.max_context;
    ReadYarn(keys, position);
  } else if (type != "linear") {
    throw BadInput(keys.WhereIs("rope.scaling.type"), "is " + Quoted(type), "none, linear, yarn or longrope");
  } else if (rope.factor_given && rope.factor != 1) {  // the file's length is the extended one
    rope.type = RopeType::kLinear;
    if (rope.original_context == 0) rope.original_context = rope.max_context / rope.factor;
  }
}

bool Rotates(const Attention& attention) {
  return attention.kind != AttentionKind::kNone && attention.position.rope.d_rot > 0;
}

void TakeLongrope(const GgufKeys& keys, const GgufTensor& of_short, const GgufTensor& of_long, Llm* llm) {
  const auto short_factor = ReadSmallTensor(keys.file(), of_short);
  const auto long_factor = ReadSmallTensor(keys.file(), of_long);
  for (Layer& layer : llm->layers) {
    if (!Rotates(layer.self)) continue;
    RopeParameters& rope = layer.self.position.rope;
    rope.type = RopeType::kLongrope;
    if (rope.original_context == 0) rope.original_context = rope.max_context;
    if (!rope.factor_given && rope.original_context > 0)
      rope.factor = rope.max_context / rope.original_context;
    rope.attention_factor = keys.FindNumber("rope.scaling.attn_factor");
    if (short_factor && short_factor->size() == rope.d_rot / 2) rope.short_factor = *short_factor;
    if (long_factor && long_factor->size() == rope.d_rot / 2) rope.long_factor = *long_factor;
  }
  if (!short_factor || !long_factor) {
    llm->warnings.emplace_back("the file ends before the values of rope_factors_long and _short");
  }
}

}  // namespace

Position ReadGgufRope(const GgufKeys& keys, const GgufArch& arch, bool window_layer, uint64_t d_head,
                      bool latent, std::optional<uint64_t> max_context) {
  constexpr GgufKey kDims{"rope.dimension_count", 0, kMostWidth};
  constexpr GgufKey kWindowDims{"rope.dimension_count_swa", 0, kMostWidth};
  const GgufKey& key = window_layer && keys.Has(kWindowDims.name) ? kWindowDims : kDims;
  const uint64_t d_rot = keys.CountOr(key, d_head);
  if (d_rot % 2 != 0 || d_rot > d_head) {
    throw BadInput(keys.WhereIs(key.name), "is " + std::to_string(d_rot),
                   "an even number, at most the head's " + std::to_string(d_head));
  }
  if (d_rot == 0) return {};
  Position position =
      RotaryPosition(arch.encoding, Base(keys, arch, window_layer), latent ? d_rot : d_head, d_rot);
  position.rope.max_context = static_cast<double>(max_context.value_or(0));
  if (!window_layer || !arch.window_unscaled) ReadScaling(keys, &position);
  return position;
}

void TakeFrequencyFactors(const GgufKeys& keys, Llm* llm) {
  const GgufTensor* of_short = keys.FindTensor("rope_factors_short.weight");
  const GgufTensor* of_long = keys.FindTensor("rope_factors_long.weight");
  if (of_short != nullptr && of_long != nullptr) return TakeLongrope(keys, *of_short, *of_long, llm);
  const GgufTensor* of_all = keys.FindTensor("rope_freqs.weight");
  if (of_all == nullptr) return;
  const auto factors = ReadSmallTensor(keys.file(), *of_all);
  if (!factors) {
    llm->warnings.emplace_back(
        "rope_freqs.weight has no values in the file: frequencies are taken as undivided");
    return;
  }
  const bool full_only = keys.architecture() == "gemma4";
  for (Layer& layer : llm->layers) {
    RopeParameters& rope = layer.self.position.rope;
    if (!Rotates(layer.self) || factors->size() != rope.d_rot / 2) continue;
    if (!full_only || !layer.self.limited()) rope.freq_factors = *factors;
  }
}

}  // namespace ropeline
