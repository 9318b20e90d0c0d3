#include "model/weight_mix.h"

#include <algorithm>
#include <cctype>
#include <map>

namespace ropeline {
namespace {

// plain_bits: the block's own, or what a mix of several comes to over llama-3.1-8b.
constexpr WeightMix kMixes[] = {
    {"f32", Mix::kF32, 32, &kBlockF32},          {"f16", Mix::kF16, 16, &kBlockF16},
    {"bf16", Mix::kBf16, 16, &kBlockBf16},       {"q8_0", Mix::kQ80, 8.5, &kBlockQ80},
    {"q6_k", Mix::kQ6K, 6.56, &kBlockQ6K},       {"q5_k_m", Mix::kQ5KM, 5.7, &kBlockQ5K},
    {"q5_k_s", Mix::kQ5KS, 5.57, &kBlockQ5K},    {"q5_1", Mix::kQ51, 6, &kBlockQ51},
    {"q5_0", Mix::kQ50, 5.5, &kBlockQ50},        {"q4_k_m", Mix::kQ4KM, 4.85, &kBlockQ4K},
    {"q4_k_s", Mix::kQ4KS, 4.67, &kBlockQ4K},    {"iq4_nl", Mix::kIq4Nl, 4.66, &kBlockIq4Nl},
    {"iq4_xs", Mix::kIq4Xs, 4.43, &kBlockIq4Xs}, {"q4_1", Mix::kQ41, 5, &kBlockQ41},
    {"q4_0", Mix::kQ40, 4.5, &kBlockQ40},        {"q3_k_l", Mix::kQ3KL, 4.3, &kBlockQ3K},
    {"q3_k_m", Mix::kQ3KM, 4, &kBlockQ3K},       {"q3_k_s", Mix::kQ3KS, 3.65, &kBlockQ3K},
    {"q2_k", Mix::kQ2K, 3.16, &kBlockQ2K},       {"stored", Mix::kStored, 0, nullptr},
};

// Early and late layers and every third between; i may be n and beyond in an encoder-decoder.
bool MoreBits(uint64_t i, uint64_t n) { return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2; }

const BlockFormat* Fallback(const BlockFormat* format, uint64_t cols) {
  if (format->Fits(cols)) return format;
  if (format == &kBlockQ2K || format == &kBlockQ3K || format == &kBlockIq4Xs) format = &kBlockIq4Nl;
  if (format == &kBlockQ4K) format = &kBlockQ50;
  if (format == &kBlockQ5K) format = &kBlockQ51;
  if (format == &kBlockQ6K) format = &kBlockQ80;
  return format->Fits(cols) ? format : &kBlockF16;
}

bool IsV(MatrixRole role) { return role == MatrixRole::kAttnV || role == MatrixRole::kCrossV; }
bool IsDown(MatrixRole role) {
  return role == MatrixRole::kFfnDown || role == MatrixRole::kExpertDown || role == MatrixRole::kSharedDown;
}

class Rules {
 public:
  Rules(const Llm& llm, Mix mix, const BlockFormat* base) : llm_(llm), mix_(mix), base_(base) {
    falcon_ = llm.model_type == "falcon" || llm.model_type.rfind("RefinedWeb", 0) == 0;
    const Attention none;
    const Attention& first = llm.layers.empty() ? none : llm.layers.front().self;
    group_ = first.n_kv_heads == 0 ? 0 : first.n_heads / first.n_kv_heads;
    for (const Layer& layer : llm.layers) n_experts_ = std::max(n_experts_, layer.ffn.n_experts);
    // In an encoder-decoder llama.cpp counts the encoder's layers only.
    two_stacks_ = llm.EncoderDecoder();
    n_layers_ = two_stacks_ ? llm.NumLayers(Stack::kEncoder) : llm.layers.size();
    seventy_b_ = n_layers_ == 80 && group_ > 1;
    Count();
  }

  const BlockFormat* Of(size_t i) const {
    const Matrix& matrix = llm_.matrices[i];
    switch (matrix.role) {
      case MatrixRole::kPositionTable:
      case MatrixRole::kTokenTypeTable:
      case MatrixRole::kRouter:
      case MatrixRole::kRecurrentConv:
        return &kBlockF32;
      case MatrixRole::kRelativeBias:
        return &kBlockF16;
      case MatrixRole::kTokenEmbedding:
      case MatrixRole::kPerLayerEmbedding:
        return llm_.tied_embeddings ? Output(matrix.cols) : base_;
      case MatrixRole::kOutput:
        return Output(matrix.cols);
      case MatrixRole::kAttnK:
      case MatrixRole::kCrossK:
        return n_experts_ == 8 ? &kBlockQ80 : base_;
      case MatrixRole::kAttnV:
      case MatrixRole::kCrossV:
        return V(nth_.at(i));
      case MatrixRole::kAttnQkv:
        return Qkv();
      case MatrixRole::kAttnOutput:
        return two_stacks_ ? base_ : AttentionOutput();  // T5's is called attn_o, which no rule names
      case MatrixRole::kFfnDown:
      case MatrixRole::kExpertDown:
      case MatrixRole::kSharedDown:
        return Down(n_experts_ > 1 ? static_cast<uint64_t>(matrix.layer) : nth_.at(i));
      default:
        return base_;
    }
  }

 private:
  // Numbers V's and ffn_down's matrices as the quantiser meets them: by layer, and in an encoder-decoder by
  // the tensor's name, in which decoder comes first and layer 10 before layer 2.
  void Count() {
    std::map<std::string, size_t> v, down;
    for (size_t i = 0; i < llm_.matrices.size(); ++i) {
      const Matrix& matrix = llm_.matrices[i];
      if (IsV(matrix.role)) v[Key(matrix, i)] = i;
      if (IsDown(matrix.role)) down[Key(matrix, i)] = i;
      n_v_ += IsV(matrix.role) || matrix.role == MatrixRole::kAttnQkv || matrix.role == MatrixRole::kAttnKvB;
    }
    for (const auto& named : {v, down}) {
      uint64_t n = 0;
      for (const auto& [key, i] : named) nth_[i] = n++;
    }
  }

  std::string Key(const Matrix& matrix, size_t i) const {
    const auto fixed = [](uint64_t n) {
      return std::string(20 - std::to_string(n).size(), '0') + std::to_string(n);
    };
    if (!two_stacks_) return fixed(static_cast<uint64_t>(matrix.layer)) + fixed(i);
    const auto layer = static_cast<uint64_t>(matrix.layer);
    const bool encoder = llm_.layers[layer].stack == Stack::kEncoder;
    const uint64_t before = encoder ? 0 : n_layers_;
    return (encoder ? "enc " : "dec ") + std::to_string(layer - before) + "." + fixed(i);
  }

  const BlockFormat* Output(uint64_t cols) const {
    if (falcon_ || !base_->Fits(cols)) return &kBlockQ80;
    return mix_ == Mix::kQ80 ? base_ : &kBlockQ6K;
  }

  const BlockFormat* V(uint64_t i) const {
    const BlockFormat* format = base_;
    if (mix_ == Mix::kQ2K) format = group_ >= 4 ? &kBlockQ4K : &kBlockQ3K;
    if (mix_ == Mix::kQ3KM) format = i < 2 ? &kBlockQ5K : &kBlockQ4K;
    if (mix_ == Mix::kQ3KL) format = &kBlockQ5K;
    if ((mix_ == Mix::kIq4Nl || mix_ == Mix::kIq4Xs) && group_ >= 4) format = &kBlockQ5K;
    if ((mix_ == Mix::kQ4KM || mix_ == Mix::kQ5KM) && MoreBits(i, n_v_)) format = &kBlockQ6K;
    if (mix_ == Mix::kQ4KS && i < 4) format = &kBlockQ5K;
    if (seventy_b_ && (format == &kBlockQ3K || format == &kBlockQ4K)) format = &kBlockQ5K;
    return n_experts_ == 8 ? &kBlockQ80 : format;
  }

  const BlockFormat* Down(uint64_t i) const {
    const uint64_t n = n_layers_;
    switch (mix_) {
      case Mix::kQ2K:
        return &kBlockQ3K;
      case Mix::kQ3KM:
        if (i < n / 16) return &kBlockQ5K;
        return !falcon_ || MoreBits(i, n) ? &kBlockQ4K : &kBlockQ3K;
      case Mix::kQ3KL:
        return falcon_ ? &kBlockQ4K : &kBlockQ5K;
      case Mix::kQ4KM:
        if (falcon_) return i < n / 16 ? &kBlockQ6K : MoreBits(i, n) ? &kBlockQ5K : &kBlockQ4K;
        return MoreBits(i, n) ? &kBlockQ6K : &kBlockQ4K;
      case Mix::kQ5KM:
        return MoreBits(i, n) ? &kBlockQ6K : &kBlockQ5K;
      case Mix::kQ4KS:
        return !falcon_ && i < n / 8 ? &kBlockQ5K : &kBlockQ4K;
      case Mix::kIq4Nl:
      case Mix::kIq4Xs:
        return i < n / 8 ? &kBlockQ5K : base_;
      default:
        return base_;
    }
  }

  const BlockFormat* AttentionOutput() const {
    if (falcon_) return mix_ == Mix::kQ3KL ? &kBlockQ4K : base_;
    if (n_experts_ == 8) {
      switch (mix_) {
        case Mix::kQ2K:
        case Mix::kQ3KS:
        case Mix::kQ3KM:
        case Mix::kQ4KS:
        case Mix::kQ4KM:
        case Mix::kIq4Nl:
        case Mix::kIq4Xs:
          return &kBlockQ5K;
        default:
          return base_;
      }
    }
    if (mix_ == Mix::kQ2K) return &kBlockQ3K;
    if (mix_ == Mix::kQ3KM) return &kBlockQ4K;
    return mix_ == Mix::kQ3KL ? &kBlockQ5K : base_;
  }

  const BlockFormat* Qkv() const {
    if (mix_ == Mix::kQ3KM || mix_ == Mix::kQ3KL) return &kBlockQ4K;
    if (mix_ == Mix::kQ4KM) return &kBlockQ5K;
    return mix_ == Mix::kQ5KM ? &kBlockQ6K : base_;
  }

  const Llm& llm_;
  const Mix mix_;
  const BlockFormat* const base_;
  bool falcon_ = false;
  bool two_stacks_ = false;
  bool seventy_b_ = false;
  uint64_t group_ = 0;  // query heads to a KV head in the first layer, 0 where that has none
  uint64_t n_experts_ = 0;
  uint64_t n_layers_ = 0;
  uint64_t n_v_ = 0;  // matrices that make V
  std::map<size_t, uint64_t> nth_;
};

}  // namespace

std::vector<std::string> WeightMixNames() {
  std::vector<std::string> names;
  for (const WeightMix& mix : kMixes) names.emplace_back(mix.name);
  return names;
}

const WeightMix& FindWeightMix(std::string_view name, const Where& where) {
  std::string lower(name);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  std::string list;
  for (const WeightMix& mix : kMixes) {
    if (mix.name == lower) return mix;
    list += (list.empty() ? "" : ", ") + std::string(mix.name);
  }
  throw BadInput(where, Quoted(name) + " is not a weight format", "one of " + list);
}

std::vector<const BlockFormat*> MatrixFormats(const Llm& llm, const WeightMix& mix) {
  std::vector<const BlockFormat*> formats(llm.matrices.size(), mix.base);
  if (mix.base->block_elements == 1) {  // a plain format has no rules, but what is never converted stays
    for (size_t i = 0; i < formats.size(); ++i) {
      const MatrixRole role = llm.matrices[i].role;
      if (role == MatrixRole::kPositionTable || role == MatrixRole::kTokenTypeTable ||
          role == MatrixRole::kRouter || role == MatrixRole::kRecurrentConv) {
        formats[i] = &kBlockF32;
      }
    }
    return formats;
  }
  const Rules rules(llm, mix.mix, mix.base);
  for (size_t i = 0; i < formats.size(); ++i) formats[i] = Fallback(rules.Of(i), llm.matrices[i].cols);
  return formats;
}

}  // namespace ropeline
