// ggml's rope_ext, get_rows and add beside the placements.
#include <algorithm>

#include "bench/peer/ggml_fill.h"
#include "bench/peer/peer_row.h"
#include "kernels/hash.h"

namespace ropeline {

namespace {

using ggml::Tensor;
using ggml::Type;

Tensor* Positions(GgmlSession* session, size_t n, size_t first) {
  Tensor* positions = session->New(Type::kI32, static_cast<int64_t>(n));
  for (size_t t = 0; t < n; ++t) {
    static_cast<int32_t*>(session->Data(positions))[t] = static_cast<int32_t>(first + t);
  }
  return positions;
}

// In place, as llama.cpp's graph allocator arranges it. Hot: the same tensor again and again.
BuildGraph Rotation(const Row& ours) {
  const size_t n = *ours.name.Count("n"), n_heads = *ours.name.Count("h"), d_head = *ours.name.Count("d");
  const Type type = *GgmlType(ours.name.dtype);
  const bool cold = ours.cold;
  GgmlRope rope;
  rope.mode = ours.name.variant == "rope_half" ? ggml::RopeMode::kNeox : ggml::RopeMode::kNormal;
  rope.d_rot = static_cast<int>(d_head);
  return [=](GgmlSession& session, size_t operations) {
    Tensor* heads = nullptr;
    for (size_t i = 0; i < operations; ++i) {
      if (heads == nullptr || cold) {
        heads = session.New(type, static_cast<int64_t>(d_head), static_cast<int64_t>(n_heads),
                            static_cast<int64_t>(n));
        FillRows(session.Library(), type, d_head, n_heads * n, 1, session.Data(heads));
      }
      session.RopeInPlace(heads, Positions(&session, n, cold ? i * n : 0), rope);
    }
  };
}

// Tokens from anywhere in the vocabulary, positions one after the other.
BuildGraph GatherThenAdd(const Row& ours) {
  const size_t n = *ours.name.Count("n"), d_model = *ours.name.Count("d");
  return [=](GgmlSession& session, size_t operations) {
    const size_t table_rows = operations * n;
    Tensor* tables[2];
    for (Tensor*& table : tables) {
      table = session.New(Type::kF32, static_cast<int64_t>(d_model), static_cast<int64_t>(table_rows));
      FillRows(session.Library(), Type::kF32, d_model, table_rows, 1, session.Data(table));
    }
    for (size_t i = 0; i < operations; ++i) {
      Tensor* tokens = session.New(Type::kI32, static_cast<int64_t>(n));
      for (size_t t = 0; t < n; ++t) {
        static_cast<int32_t*>(session.Data(tokens))[t] = static_cast<int32_t>(Hash64(i * n + t) % table_rows);
      }
      Tensor* x = session.GetRows(tables[0], tokens);
      session.AddInPlace(x, session.GetRows(tables[1], Positions(&session, n, i * n)));
    }
  };
}

BuildGraph BiasTensor(const Row& ours) {
  const auto n = static_cast<int64_t>(*ours.name.Count("n")),
             n_heads = static_cast<int64_t>(*ours.name.Count("h"));
  const bool cold = ours.cold;
  return [=](GgmlSession& session, size_t operations) {
    Tensor *scores = nullptr, *bias = nullptr;
    for (size_t i = 0; i < operations; ++i) {
      if (scores == nullptr || cold) {
        scores = session.New(Type::kF32, n, n, n_heads);
        bias = session.New(Type::kF32, n, n, n_heads);
      }
      session.AddInPlace(scores, bias);
    }
  };
}

// Only these arguments: what ggml has no counterpart of (partial rotary in other layouts, lists of positions
// …) is left out.
bool HasOnly(const RowName& name, const std::vector<std::string>& keys) {
  for (const auto& [key, value] : name.args) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) return false;
  }
  return true;
}

std::string ArgOr(const RowName& name, const char* key, const char* otherwise) {
  const std::string* value = name.Arg(key);
  return value == nullptr ? otherwise : *value;
}

}  // namespace

std::optional<BuildGraph> GgmlPlacement(const Row& ours) {
  const RowName& name = ours.name;
  if (name.family == "qk_rotation" && (name.variant == "rope_half" || name.variant == "rope_interleaved") &&
      (name.dtype == "f32" || name.dtype == "f16") && HasOnly(name, {"n", "h", "d", "cache", "threads"}) &&
      name.Count("d") == 128u) {
    const size_t n = name.Count("n").value_or(0);
    const bool chosen = ours.cold ? n == 512 || n == 4096 : n == 4 || n == 16;
    if (chosen) return Rotation(ours);
  }
  if (name.family == "input_add" && name.dtype == "f32" && ArgOr(name, "form", "") == "gather_then_add") {
    return GatherThenAdd(ours);
  }
  // ggml has no causal addition: it is held against all scores.
  if (name.family == "score_bias" && name.dtype == "f32" && ArgOr(name, "form", "") == "materialised" &&
      ArgOr(name, "bias", "") == "f32" && ArgOr(name, "causal", "") == "0") {
    return BiasTensor(ours);
  }
  return std::nullopt;
}

}  // namespace ropeline
