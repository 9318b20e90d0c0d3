// ggml's flash_attn_ext beside attention, and its soft_max_ext. K and V stand as llama.cpp keeps them: one
// row of all KV heads for each token.
#include <cmath>

#include "bench/peer/ggml_fill.h"
#include "bench/peer/peer_row.h"
#include "kernels/dtype.h"

namespace ropeline {

namespace {

using ggml::Tensor;
using ggml::Type;

constexpr float kAlibiMaxBias = 8;  // BLOOM's and MPT's: slopes 2^(−8 h/n_heads)

int64_t Int(size_t n) { return static_cast<int64_t>(n); }

// [n_q, n] f16: 0, −distance with ALiBi, −infinity after the query. The queries are the last n_q tokens.
Tensor* Mask(GgmlSession* session, size_t n, size_t n_q, bool distances) {
  Tensor* mask = session->New(Type::kF16, Int(n), Int(n_q));
  auto* const out = static_cast<uint16_t*>(session->Data(mask));
  for (size_t q = 0; q < n_q; ++q) {
    const size_t position = n - n_q + q;
    for (size_t k = 0; k < n; ++k) {
      const float seen = distances ? -static_cast<float>(position - k) : 0;
      out[q * n + k] = F16FromFloat(k > position ? -INFINITY : seen);
    }
  }
  return mask;
}

struct AttentionShape {
  size_t n, n_q, n_heads, n_kv_heads, d_head;
  Type type;
  bool alibi;
};

BuildGraph Attention(const AttentionShape& shape) {
  return [=](GgmlSession& session, size_t operations) {
    Tensor* q = session.New(Type::kF32, Int(shape.d_head), Int(shape.n_heads), Int(shape.n_q));
    FillRows(session.Library(), Type::kF32, shape.d_head, shape.n_heads * shape.n_q, 3, session.Data(q));
    // llama.cpp always gives a mask.
    Tensor* mask = Mask(&session, shape.n, shape.n_q, shape.alibi);
    GgmlAttention attention;
    attention.scale = 1 / std::sqrt(static_cast<float>(shape.d_head));
    attention.max_bias = shape.alibi ? kAlibiMaxBias : 0;
    for (size_t i = 0; i < operations; ++i) {
      Tensor* kv[2];
      for (size_t which = 0; which < 2; ++which) {
        kv[which] = session.New(shape.type, Int(shape.d_head), Int(shape.n_kv_heads), Int(shape.n));
        FillRows(session.Library(), shape.type, shape.d_head, shape.n_kv_heads * shape.n, 1 + which,
                 session.Data(kv[which]), 256 * shape.n_kv_heads);
      }
      session.Attend(q, kv[0], kv[1], mask, attention);
    }
  };
}

}  // namespace

std::optional<BuildGraph> GgmlAttentionGraph(const Row& ours) {
  const RowName& name = ours.name;
  const auto type = GgmlType(name.dtype);
  if (name.family != "attention" || !type || name.dtype == "bf16") return std::nullopt;
  for (const char* key : {"window", "batch", "split", "latent", "summary"}) {
    if (name.Arg(key) != nullptr) return std::nullopt;
  }
  const std::string* bias = name.Arg("bias");
  const bool alibi = bias != nullptr && *bias == "alibi";
  if (bias != nullptr && *bias != "none" && !alibi) return std::nullopt;
  AttentionShape shape{name.Count("n").value_or(0),
                       name.Count("m").value_or(1),
                       name.Count("h").value_or(0),
                       name.Count("hkv").value_or(0),
                       name.Count("d").value_or(0),
                       *type,
                       alibi};
  if (name.variant == "decode" && ours.cold && (shape.n == 4096 || shape.n == 32768)) {
    const bool chosen = (shape.n_heads == 24 && shape.n_kv_heads == 8) ||
                        (shape.n_heads == 32 && shape.n_kv_heads == 8 && shape.d_head == 64) ||
                        (shape.n_heads == 32 && shape.n_kv_heads == 32);
    if (chosen) return Attention(shape);
  }
  if (name.variant == "prefill" && shape.n_q == 512) return Attention(shape);
  return std::nullopt;
}

// ALiBi where the scores are a tensor of their own: scale, bias by distance and softmax in one pass.
void AddGgmlSoftMax(const Plan& plan, std::vector<Row>* rows) {
  for (const int threads : plan.threads) {
    for (const size_t n : {size_t{256}, size_t{1024}}) {
      const size_t n_heads = n == 256 ? 8 : 32;
      Row row;
      row.name = {"score_bias", "alibi", "f32", "any", {}};
      row.name.With("n", n).With("h", n_heads).With("causal", 1).With("form", "soft_max_ext");
      row.name.With("cache", n == 256 ? "hot" : "cold").With("threads", static_cast<size_t>(threads));
      row.threads = threads;
      const double scores = static_cast<double>(n * n * n_heads);
      row.cost = {4 * scores + 4 * static_cast<double>(n * n), 4 * scores, 0};
      row.items = scores;
      row.traffic = Traffic::kCopy;
      row.cold = n != 256;
      row.working_set_bytes = row.cost.Bytes();
      if (row.cold) {
        row.working_set_bytes *= static_cast<double>(RingSlots(plan, row.working_set_bytes, Cache::kCold));
      }
      const bool cold = row.cold;
      rows->push_back(GgmlRow(plan, row, [=](GgmlSession& session, size_t operations) {
        Tensor* mask = session.New(Type::kF32, Int(n), Int(n));
        for (size_t q = 0; q < n; ++q) {
          for (size_t k = 0; k < n; ++k) {
            session.Floats(mask)[q * n + k] = k > q ? -INFINITY : -static_cast<float>(q - k);
          }
        }
        Tensor* in = nullptr;
        for (size_t i = 0; i < operations; ++i) {
          if (in == nullptr || cold) {
            in = session.New(Type::kF32, Int(n), Int(n), Int(n_heads));
            FillRows(session.Library(), Type::kF32, n, n * n_heads, 1, session.Data(in));
          }
          session.SoftMax(in, mask, 0.088f, kAlibiMaxBias);
        }
      }));
    }
  }
}

}  // namespace ropeline
