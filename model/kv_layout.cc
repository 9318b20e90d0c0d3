#include "model/kv_layout.h"

#include <algorithm>

namespace ropeline {
namespace {

constexpr const BlockFormat* kFormats[] = {&kBlockF32, &kBlockF16, &kBlockBf16,
                                           &kBlockQ80, &kBlockQ40, &kBlockKivi4};

void Add(const KvLayer& layer, KvLayer* total) {
  total->bytes_per_token += layer.bytes_per_token;
  total->bytes_per_token_beyond_window += layer.bytes_per_token_beyond_window;
  total->bytes_at_context += layer.bytes_at_context;
  total->constant_bytes += layer.constant_bytes;
  total->allocated_bytes += layer.allocated_bytes;
  total->read_bytes_per_step += layer.read_bytes_per_step;
}

}  // namespace

uint64_t KvBytesPerToken(const Attention& attention, const BlockFormat& format) {
  if (attention.kind == AttentionKind::kMla) return format.RowBytes(attention.KElements());
  return attention.n_kv_heads * (format.RowBytes(attention.d_head_k) + format.RowBytes(attention.d_head_v));
}

std::vector<std::string> KvFormatNames() {
  std::vector<std::string> names;
  for (const BlockFormat* format : kFormats) names.emplace_back(format->name);
  return names;
}

const BlockFormat& FindKvFormat(std::string_view name, const Where& where) {
  std::string list;
  for (const BlockFormat* format : kFormats) {
    if (format->name == name) return *format;
    list += (list.empty() ? "" : ", ") + std::string(format->name);
  }
  throw BadInput(where, Quoted(name) + " is not a KV cache format", "one of " + list);
}

KvLayout LayOutKv(const Llm& llm, const BlockFormat& format, uint64_t context,
                  const KvAllocation& allocation) {
  const uint64_t padded =
      (context + allocation.pad_tokens - 1) / allocation.pad_tokens * allocation.pad_tokens;
  KvLayout layout;
  for (size_t i = 0; i < llm.layers.size(); ++i) {
    const Layer& layer = llm.layers[i];
    if (layer.stack == Stack::kEncoder) continue;
    const Attention& self = layer.self;
    KvLayer kv;
    kv.layer = static_cast<int>(i);
    kv.kind = self.kind != AttentionKind::kNone ? self.kind : layer.cross.kind;
    if (kv.kind == AttentionKind::kNone) continue;
    if (self.kind != AttentionKind::kNone) {
      const bool window = self.kind == AttentionKind::kWindow;
      kv.bytes_per_token = KvBytesPerToken(self, format);
      kv.bytes_per_token_beyond_window = window ? 0 : kv.bytes_per_token;
      kv.bytes_at_context = kv.bytes_per_token * (window ? std::min(context, self.window) : context);
      const bool keep_window = window && !allocation.windows_kept_full;
      kv.allocated_bytes = kv.bytes_per_token * (keep_window ? std::min(padded, self.window) : padded);
    }
    if (layer.cross.kind == AttentionKind::kCross)
      kv.constant_bytes = KvBytesPerToken(layer.cross, format) * context;
    kv.allocated_bytes += kv.constant_bytes;
    kv.read_bytes_per_step = kv.bytes_at_context + kv.constant_bytes;
    Add(kv, &layout.total);
    layout.layers.push_back(kv);
  }
  return layout;
}

}  // namespace ropeline
