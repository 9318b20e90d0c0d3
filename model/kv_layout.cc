#include "model/kv_layout.h"

#include <algorithm>

namespace ropeline {
namespace {

constexpr const BlockFormat* kFormats[] = {
    &kBlockF32, &kBlockF16, &kBlockBf16,  &kBlockFp8,     &kBlockQ80,     &kBlockQ51,     &kBlockQ50,
    &kBlockQ41, &kBlockQ40, &kBlockKivi4, &kBlockInt4G32, &kBlockInt4G64, &kBlockInt4G128};

void Add(const KvLayer& layer, KvLayer* total) {
  total->elements_per_token += layer.elements_per_token;
  total->expanded_elements_per_token += layer.expanded_elements_per_token;
  total->bytes_per_token += layer.bytes_per_token;
  total->bytes_per_token_beyond_window += layer.bytes_per_token_beyond_window;
  total->bytes_at_context += layer.bytes_at_context;
  total->state_elements += layer.state_elements;
  total->cross_elements += layer.cross_elements;
  total->state_bytes += layer.state_bytes;
  total->cross_bytes += layer.cross_bytes;
  total->constant_bytes += layer.constant_bytes;
  total->allocated_bytes += layer.allocated_bytes;
  total->read_bytes_per_step += layer.read_bytes_per_step;
  total->intercept_bytes += layer.intercept_bytes;
}

uint64_t ExpandedBytesPerToken(const Attention& attention, const KvFormats& formats) {
  return attention.n_kv_heads *
         (formats.k.RowBytes(attention.d_head_k) + formats.v.RowBytes(attention.d_head_v));
}

struct Layout {
  const Llm& llm;
  const KvFormats& formats;
  uint64_t context;
  const KvAllocation& allocation;

  uint64_t Padded(uint64_t tokens) const {
    return (tokens + allocation.pad_tokens - 1) / allocation.pad_tokens * allocation.pad_tokens;
  }
  uint64_t Tokens(const Attention& self) const {
    return self.limited() ? std::min(context, self.window) : context;
  }

  void Self(const Attention& self, KvLayer* kv) const {
    kv->elements_per_token = self.KElements() + self.VElements();
    kv->bytes_per_token = KvBytesPerToken(self, formats);
    kv->bytes_per_token_beyond_window = self.limited() ? 0 : kv->bytes_per_token;
    kv->bytes_at_context = kv->bytes_per_token * Tokens(self);
    kv->intercept_bytes = self.limited() ? kv->bytes_per_token * self.window : 0;
    const bool latent = self.kind == AttentionKind::kMla;
    if (latent) kv->expanded_elements_per_token = self.n_kv_heads * (self.d_head_k + self.d_head_v);
    const bool keep_window = self.limited() && !allocation.windows_kept_full;
    const uint64_t tokens = keep_window ? std::min(Padded(context), Padded(self.window)) : Padded(context);
    kv->allocated_bytes =
        tokens *
        (latent && allocation.latent_expanded ? ExpandedBytesPerToken(self, formats) : kv->bytes_per_token);
    kv->read_bytes_per_step = kv->bytes_at_context;
  }

  void Constant(const Layer& layer, KvLayer* kv) const {
    kv->state_elements = layer.recurrent.state_elements + layer.recurrent.conv_elements;
    kv->state_bytes = formats.state.RowBytes(kv->state_elements);
    const Attention& cross = layer.cross;
    if (cross.kind == AttentionKind::kCross) {
      const uint64_t tokens = cross.source_tokens.value_or(context);
      kv->cross_elements = (cross.KElements() + cross.VElements()) * tokens;
      kv->cross_bytes = KvBytesPerToken(cross, formats) * tokens;
    }
    kv->constant_bytes = kv->state_bytes + kv->cross_bytes;
    kv->allocated_bytes += kv->constant_bytes;
    kv->read_bytes_per_step += kv->constant_bytes;
    kv->intercept_bytes += kv->constant_bytes;
  }

  KvLayer Of(size_t i) const {
    const Layer& layer = llm.layers[i];
    KvLayer kv;
    kv.layer = static_cast<int>(i);
    kv.kind = layer.Kind();
    if (layer.self.caches()) {
      Self(layer.self, &kv);
    } else if (layer.self.kind != AttentionKind::kNone && layer.self.shares_kv_with >= 0) {
      kv.shares_kv_with = layer.self.shares_kv_with;
      kv.read_bytes_per_step = KvBytesPerToken(layer.self, formats) * Tokens(layer.self);
    }
    Constant(layer, &kv);
    return kv;
  }
};

}  // namespace

std::string KvFormats::Name() const { return same() ? k.name : std::string(k.name) + "/" + v.name; }

KvFormats ParseKvFormats(std::string_view text, const Where& where) {
  const size_t slash = text.find('/');
  const BlockFormat& k = FindKvFormat(text.substr(0, slash), where);
  return slash == std::string_view::npos ? KvFormats(k)
                                         : KvFormats(k, FindKvFormat(text.substr(slash + 1), where));
}

uint64_t KvBytesPerToken(const Attention& attention, const KvFormats& formats) {
  if (attention.kind == AttentionKind::kMla) return formats.k.RowBytes(attention.KElements());
  return ExpandedBytesPerToken(attention, formats);
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

KvLayout LayOutKv(const Llm& llm, const KvFormats& formats, uint64_t context,
                  const KvAllocation& allocation) {
  const Layout rules{llm, formats, context, allocation};
  KvLayout layout;
  layout.layers.reserve(llm.layers.size());
  for (size_t i = 0; i < llm.layers.size(); ++i) {
    if (llm.layers[i].stack == Stack::kEncoder) continue;
    const KvLayer kv = rules.Of(i);
    if (kv.bytes_per_token == 0 && kv.constant_bytes == 0 && kv.read_bytes_per_step == 0) continue;
    Add(kv, &layout.total);
    layout.layers.push_back(kv);
  }
  return layout;
}

}  // namespace ropeline
