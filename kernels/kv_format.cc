#include "kernels/kv_format.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/dtype.h"

namespace ropeline {

namespace {

uint16_t Half(const void* tile, size_t i) {
  uint16_t bits;
  std::memcpy(&bits, static_cast<const char*>(tile) + 2 * i, 2);
  return bits;
}

void SetHalf(void* tile, size_t i, uint16_t bits) { std::memcpy(static_cast<char*>(tile) + 2 * i, &bits, 2); }

// Where the numbers start, in bytes: after the scales, and the minima.
size_t DataStart(KvFormat format) { return format == KvFormat::kKivi4 ? 4 * kKvTile : 2 * kKvTile; }

size_t ByteOf(size_t c, size_t o) { return (c / 2 * kKvTile + o) * 2 + c % 2; }  // q8_0
size_t WordOf(size_t c, size_t o) { return (c / 8 * kKvTile + o) * 2 + c % 2; }  // q4_0, kivi4
unsigned NibbleShift(size_t c) { return static_cast<unsigned>(c % 8 / 2 * 4); }  // within the word

void SetNumber(KvFormat format, void* tile, size_t c, size_t o, int q) {
  if (format == KvFormat::kQ80) {
    static_cast<int8_t*>(tile)[DataStart(format) + ByteOf(c, o)] = static_cast<int8_t>(q);
    return;
  }
  const size_t word = DataStart(format) / 2 + WordOf(c, o);
  const unsigned cleared = Half(tile, word) & ~(0xfu << NibbleShift(c));
  const unsigned nibble = static_cast<unsigned>(q) & 0xf;
  SetHalf(tile, word, static_cast<uint16_t>(cleared | nibble << NibbleShift(c)));
}

}  // namespace

const char* KvFormatName(KvFormat format) {
  switch (format) {
    case KvFormat::kF32:
      return "f32";
    case KvFormat::kF16:
      return "f16";
    case KvFormat::kBf16:
      return "bf16";
    case KvFormat::kQ80:
      return "q8_0";
    case KvFormat::kQ40:
      return "q4_0";
    case KvFormat::kKivi4:
      return "kivi4";
  }
  return "";
}

std::optional<KvFormat> ParseKvFormat(std::string_view name) {
  for (const KvFormat format : kAllKvFormats) {
    if (name == KvFormatName(format)) return format;
  }
  return std::nullopt;
}

float KvTileElement(KvFormat format, TileScale scale, size_t width, const void* tile, size_t c, size_t o) {
  switch (format) {
    case KvFormat::kF32:
      return LoadElement(Dtype::kF32, tile, c * width + o);
    case KvFormat::kF16:
      return LoadElement(Dtype::kF16, tile, c * width + o);
    case KvFormat::kBf16:
      return LoadElement(Dtype::kBf16, tile, c * width + o);
    default:
      break;
  }
  const float factor = FloatFromF16(Half(tile, scale == TileScale::kOfOutput ? o : c));
  if (format == KvFormat::kQ80) {
    return factor * static_cast<float>(static_cast<const int8_t*>(tile)[DataStart(format) + ByteOf(c, o)]);
  }
  const unsigned word = Half(tile, DataStart(format) / 2 + WordOf(c, o));
  const auto q = static_cast<float>(word >> NibbleShift(c) & 0xf);
  if (format == KvFormat::kQ40) return factor * (q - 8);
  return factor * q + FloatFromF16(Half(tile, kKvTile + c));
}

void QuantiseKvLine(KvFormat format, TileScale scale, const float* x, size_t line, void* tile) {
  const bool of_output = scale == TileScale::kOfOutput;
  const auto set = [&](size_t i, int q) {
    SetNumber(format, tile, of_output ? i : line, of_output ? line : i, q);
  };
  const auto [least, most] = std::minmax_element(x, x + kKvTile);
  if (format == KvFormat::kKivi4) {
    SetHalf(tile, line, F16FromFloat((*most - *least) / 15 + 0.0f));
    SetHalf(tile, kKvTile + line, F16FromFloat(*least + 0.0f));
    const float step = FloatFromF16(Half(tile, line)), from = FloatFromF16(Half(tile, kKvTile + line));
    const float inverse = step != 0 ? 1 / step : 0;
    for (size_t i = 0; i < kKvTile; ++i) {
      set(i, static_cast<int>(std::lrint(std::clamp((x[i] - from) * inverse, 0.0f, 15.0f))));
    }
    return;
  }
  // The magnitude's element with its sign.
  const float extreme = std::abs(*least) > std::abs(*most) ? *least : *most;
  // + 0, here and above: a line of zeros has the scale +0 whatever their signs.
  const float step = (format == KvFormat::kQ80 ? std::abs(extreme) / 127 : extreme / -8) + 0.0f;
  const float inverse = step != 0 ? 1 / step : 0;
  SetHalf(tile, line, F16FromFloat(step));
  for (size_t i = 0; i < kKvTile; ++i) {
    if (format == KvFormat::kQ80) {
      set(i, static_cast<int>(std::lrint(x[i] * inverse)));
    } else {
      const float steps = x[i] * inverse + 8.5f;  // within 0.5 … 16.5, or no number
      set(i, steps > 0 && steps < 16 ? static_cast<int>(steps) : 15);
    }
  }
}

}  // namespace ropeline
