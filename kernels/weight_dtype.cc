#include "kernels/weight_dtype.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/dtype.h"
#include "kernels/hash.h"

namespace ropeline {

namespace {

uint16_t HalfAt(const uint8_t* p) {
  uint16_t bits;
  std::memcpy(&bits, p, 2);
  return bits;
}
float FloatOfHalfAt(const uint8_t* p) { return FloatFromF16(HalfAt(p)); }
void StoreHalf(float value, uint8_t* p) {
  const uint16_t bits = F16FromFloat(value);
  std::memcpy(p, &bits, 2);
}
float Stored(float value) { return FloatFromF16(F16FromFloat(value)); }
int Clamped(float value, int least, int most) {
  return static_cast<int>(std::lrint(std::clamp(value, static_cast<float>(least), static_cast<float>(most))));
}

// ------------------------------------------------------------------------------------------------- decode

void DecodeQ80(const uint8_t* block, float* out) {
  const float d = FloatOfHalfAt(block);
  for (size_t i = 0; i < 32; ++i) out[i] = d * static_cast<float>(static_cast<int8_t>(block[2 + i]));
}

void DecodeQ40(const uint8_t* block, float* out) {
  const float d = FloatOfHalfAt(block);
  for (size_t i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(static_cast<int>(block[2 + i] & 0xf) - 8);
    out[i + 16] = d * static_cast<float>(static_cast<int>(block[2 + i] >> 4) - 8);
  }
}

// Scale and minimum of sub-block j of q4_K's twelve bytes.
struct SixBits {
  int scale, minimum;
};
SixBits SixBitsOf(const uint8_t* bytes, size_t j) {
  if (j < 4) return {bytes[j] & 63, bytes[j + 4] & 63};
  return {(bytes[j + 4] & 0xf) | (bytes[j - 4] >> 6) << 4, (bytes[j + 4] >> 4) | (bytes[j] >> 6) << 4};
}
void StoreSixBits(size_t j, SixBits bits, uint8_t* bytes) {
  if (j < 4) {
    bytes[j] = static_cast<uint8_t>((bytes[j] & 0xc0) | bits.scale);
    bytes[j + 4] = static_cast<uint8_t>((bytes[j + 4] & 0xc0) | bits.minimum);
  } else {
    bytes[j + 4] = static_cast<uint8_t>((bits.scale & 0xf) | (bits.minimum & 0xf) << 4);
    bytes[j - 4] = static_cast<uint8_t>((bytes[j - 4] & 0x3f) | (bits.scale >> 4) << 6);
    bytes[j] = static_cast<uint8_t>((bytes[j] & 0x3f) | (bits.minimum >> 4) << 6);
  }
}

// In double: the difference of two products would be rounded twice in f32.
void DecodeQ4K(const uint8_t* block, float* out) {
  const double d = FloatOfHalfAt(block), m = FloatOfHalfAt(block + 2);
  for (size_t j = 0; j < 8; ++j) {
    const SixBits bits = SixBitsOf(block + 4, j);
    for (size_t i = 0; i < 32; ++i) {
      const uint8_t byte = block[16 + j / 2 * 32 + i];
      out[32 * j + i] =
          static_cast<float>(d * bits.scale * (j % 2 == 0 ? byte & 0xf : byte >> 4) - m * bits.minimum);
    }
  }
}

void DecodeQ6K(const uint8_t* block, float* out) {
  const double d = FloatOfHalfAt(block + 208);
  for (size_t w = 0; w < 256; ++w) {
    const size_t half = w / 128, run = w % 128 / 32, i = w % 32;
    const uint8_t low = block[64 * half + run % 2 * 32 + i];
    const uint8_t upper = block[128 + 32 * half + i];
    const int q = (run < 2 ? low & 0xf : low >> 4) | ((upper >> (2 * run)) & 3) << 4;
    const auto scale = static_cast<int8_t>(block[192 + w / 16]);
    out[w] = static_cast<float>(d * scale * (q - 32));
  }
}

// ------------------------------------------------------------------------------------------------- encode

// Of the largest magnitude; of two equal ones the first.
float Largest(const float* x, size_t n) {
  return *std::max_element(x, x + n, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
}

void EncodeQ80(const float* x, uint8_t* block) {
  const float d = std::fabs(Largest(x, 32)) / 127, inverse = d > 0 ? 1 / d : 0;
  StoreHalf(d, block);
  for (size_t i = 0; i < 32; ++i) {
    block[2 + i] = static_cast<uint8_t>(static_cast<int8_t>(std::round(x[i] * inverse)));
  }
}

void EncodeQ40(const float* x, uint8_t* block) {
  const float d = Largest(x, 32) / -8, inverse = d != 0 ? 1 / d : 0;
  StoreHalf(d, block);
  const auto nibble = [&](size_t i) { return std::min(15, static_cast<int>(x[i] * inverse + 8.5f)); };
  for (size_t i = 0; i < 16; ++i) block[2 + i] = static_cast<uint8_t>(nibble(i) | nibble(i + 16) << 4);
}

void EncodeQ4K(const float* x, uint8_t* block) {
  std::memset(block, 0, 144);
  float scale[8], minimum[8];
  for (size_t j = 0; j < 8; ++j) {
    const auto [least, most] = std::minmax_element(x + 32 * j, x + 32 * j + 32);
    minimum[j] = std::max(0.0f, -*least);
    scale[j] = std::max(0.0f, *most + minimum[j]) / 15;
  }
  StoreHalf(*std::max_element(scale, scale + 8) / 63, block);
  StoreHalf(*std::max_element(minimum, minimum + 8) / 63, block + 2);
  const float d = FloatOfHalfAt(block), m = FloatOfHalfAt(block + 2);
  for (size_t j = 0; j < 8; ++j) {
    const SixBits bits{d > 0 ? Clamped(scale[j] / d, 0, 63) : 0, m > 0 ? Clamped(minimum[j] / m, 0, 63) : 0};
    StoreSixBits(j, bits, block + 4);
    const float step = d * static_cast<float>(bits.scale), start = m * static_cast<float>(bits.minimum);
    for (size_t i = 0; i < 32; ++i) {
      const int q = step > 0 ? Clamped((x[32 * j + i] + start) / step, 0, 15) : 0;
      block[16 + j / 2 * 32 + i] |= static_cast<uint8_t>(j % 2 == 0 ? q : q << 4);
    }
  }
}

void EncodeQ6K(const float* x, uint8_t* block) {
  std::memset(block, 0, 210);
  float scale[16];
  for (size_t j = 0; j < 16; ++j) scale[j] = Largest(x + 16 * j, 16) / -32;
  const float largest = Largest(scale, 16);
  StoreHalf(largest / -128, block + 208);
  const float d = FloatOfHalfAt(block + 208);
  for (size_t w = 0; w < 256; ++w) {
    const int whole = d != 0 ? Clamped(scale[w / 16] / d, -128, 127) : 0;
    block[192 + w / 16] = static_cast<uint8_t>(static_cast<int8_t>(whole));
    const float step = d * static_cast<float>(whole);
    const int q = step != 0 ? Clamped(x[w] / step, -32, 31) + 32 : 32;
    const size_t half = w / 128, run = w % 128 / 32, i = w % 32;
    block[64 * half + run % 2 * 32 + i] |= static_cast<uint8_t>(run < 2 ? q & 0xf : (q & 0xf) << 4);
    block[128 + 32 * half + i] |= static_cast<uint8_t>((q >> 4) << (2 * run));
  }
}

// --------------------------------------------------------------------------------------------------- fill

// Standard deviation of a block's weights in units of its scale, where bits are drawn evenly: a whole number
// of 2^b values has variance (4^b − 1) / 12. q4_K's and q6_K's sub-blocks share one scale here.
constexpr int kSubScale = 32;
double DeviationOfBits(WeightDtype dtype) {
  switch (dtype) {
    case WeightDtype::kQ80:
      return std::sqrt(65535.0 / 12);
    case WeightDtype::kQ40:
      return std::sqrt(255.0 / 12);
    case WeightDtype::kQ4K:
      return kSubScale * std::sqrt(255.0 / 12);
    case WeightDtype::kQ6K:
      return kSubScale * std::sqrt(4095.0 / 12);
    default:
      return 0;
  }
}

void FillRow(WeightDtype dtype, size_t cols, uint64_t seed, float deviation, uint8_t* row) {
  if (!IsBlocked(dtype)) {
    // Even between −√3 and √3 deviations.
    const float most = deviation * std::sqrt(3.0f);
    for (size_t c = 0; c < cols; ++c) {
      const float value = most * HashToFloatInRow(seed, c);
      const uint16_t bits = dtype == WeightDtype::kF16 ? F16FromFloat(value) : Bf16FromFloat(value);
      if (dtype == WeightDtype::kF32) {
        std::memcpy(row + 4 * c, &value, 4);
      } else {
        std::memcpy(row + 2 * c, &bits, 2);
      }
    }
    return;
  }
  const size_t bytes = WeightRowBytes(dtype, cols);
  for (size_t i = 0; i < bytes; i += 8) {
    const uint64_t bits = Hash64(seed + i);
    std::memcpy(row + i, &bits, std::min<size_t>(8, bytes - i));
  }
  const WeightBlock block = WeightBlockOf(dtype);
  const float d = deviation / static_cast<float>(DeviationOfBits(dtype));
  for (uint8_t* at = row; at < row + bytes; at += block.bytes) {
    // Whole numbers with a sign have one more below zero than above: the scale's sign takes that out.
    const float either = (Hash64(seed ^ static_cast<uint64_t>(at - row)) & 1) != 0 ? d : -d;
    switch (dtype) {
      case WeightDtype::kQ4K:
        StoreHalf(d, at);
        // w = d · 32 · q − m · 16: the mean of q is 7.5, so that m is 15 d.
        StoreHalf(15 * Stored(d), at + 2);
        for (size_t j = 0; j < 8; ++j) StoreSixBits(j, {kSubScale, 16}, at + 4);
        break;
      case WeightDtype::kQ6K:
        std::memset(at + 192, kSubScale, 16);
        StoreHalf(either, at + 208);
        break;
      default:
        StoreHalf(either, at);
    }
  }
}

}  // namespace

const char* WeightDtypeName(WeightDtype dtype) {
  switch (dtype) {
    case WeightDtype::kF32:
      return "f32";
    case WeightDtype::kF16:
      return "f16";
    case WeightDtype::kBf16:
      return "bf16";
    case WeightDtype::kQ80:
      return "q8_0";
    case WeightDtype::kQ40:
      return "q4_0";
    case WeightDtype::kQ4K:
      return "q4_K";
    case WeightDtype::kQ6K:
      return "q6_K";
  }
  return "";
}

std::optional<WeightDtype> ParseWeightDtype(std::string_view name) {
  for (const WeightDtype dtype : kAllWeightDtypes) {
    if (name == WeightDtypeName(dtype)) return dtype;
  }
  return std::nullopt;
}

void DecodeWeights(WeightDtype dtype, const void* row, size_t cols, float* out) {
  const auto* bytes = static_cast<const uint8_t*>(row);
  const WeightBlock block = WeightBlockOf(dtype);
  for (size_t c = 0; c < cols; c += block.weights, bytes += block.bytes) {
    switch (dtype) {
      case WeightDtype::kF32:
        std::memcpy(out + c, bytes, 4);
        break;
      case WeightDtype::kF16:
        out[c] = FloatOfHalfAt(bytes);
        break;
      case WeightDtype::kBf16:
        out[c] = FloatFromBf16(HalfAt(bytes));
        break;
      case WeightDtype::kQ80:
        DecodeQ80(bytes, out + c);
        break;
      case WeightDtype::kQ40:
        DecodeQ40(bytes, out + c);
        break;
      case WeightDtype::kQ4K:
        DecodeQ4K(bytes, out + c);
        break;
      case WeightDtype::kQ6K:
        DecodeQ6K(bytes, out + c);
        break;
    }
  }
}

void EncodeWeights(WeightDtype dtype, const float* x, size_t cols, void* row) {
  auto* bytes = static_cast<uint8_t*>(row);
  const WeightBlock block = WeightBlockOf(dtype);
  for (size_t c = 0; c < cols; c += block.weights, bytes += block.bytes) {
    uint16_t bits;
    switch (dtype) {
      case WeightDtype::kF32:
        std::memcpy(bytes, x + c, 4);
        break;
      case WeightDtype::kF16:
        StoreHalf(x[c], bytes);
        break;
      case WeightDtype::kBf16:
        bits = Bf16FromFloat(x[c]);
        std::memcpy(bytes, &bits, 2);
        break;
      case WeightDtype::kQ80:
        EncodeQ80(x + c, bytes);
        break;
      case WeightDtype::kQ40:
        EncodeQ40(x + c, bytes);
        break;
      case WeightDtype::kQ4K:
        EncodeQ4K(x + c, bytes);
        break;
      case WeightDtype::kQ6K:
        EncodeQ6K(x + c, bytes);
        break;
    }
  }
}

void FillWeights(WeightDtype dtype, size_t cols, size_t first, size_t end, uint64_t seed, float deviation,
                 void* data) {
  const size_t row_bytes = WeightRowBytes(dtype, cols);
  for (size_t row = first; row < end; ++row) {
    FillRow(dtype, cols, Hash64(Hash64(seed) + row), deviation,
            static_cast<uint8_t*>(data) + row * row_bytes);
  }
}

}  // namespace ropeline
