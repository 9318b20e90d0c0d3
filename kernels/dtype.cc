#include "kernels/dtype.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace ropeline {

const char* DtypeName(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return "f32";
    case Dtype::kF16:
      return "f16";
    case Dtype::kBf16:
      return "bf16";
  }
  return "";
}

std::optional<Dtype> ParseDtype(std::string_view name) {
  for (const Dtype dtype : kAllDtypes) {
    if (name == DtypeName(dtype)) return dtype;
  }
  return std::nullopt;
}

double RoundingUnit(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return 0x1p-24;
    case Dtype::kF16:
      return 0x1p-11;
    case Dtype::kBf16:
      return 0x1p-8;
  }
  return 0;
}

uint16_t F16FromFloat(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7e00;
  const double magnitude = std::abs(static_cast<double>(value));
  if (magnitude >= 65520.0) return sign | 0x7c00;  // half-way to the next power of two, and beyond
  // Below 2^-14 the spacing stays that of 2^-14; rint rounds half to even.
  const int exponent = std::max(magnitude == 0 ? -14 : std::ilogb(magnitude), -14);
  const auto steps = static_cast<uint32_t>(std::rint(std::ldexp(magnitude, 10 - exponent)));
  // A mantissa that rounds up to 2^11 carries into the exponent; subnormals have the exponent field 0.
  return static_cast<uint16_t>(sign | (static_cast<uint32_t>(exponent + 14) * 1024 + steps));
}

float FloatFromF16(uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f;
  const int mantissa = bits & 0x3ff;
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 0x1f) return mantissa != 0 ? NAN : sign * INFINITY;
  const int whole = exponent == 0 ? mantissa : mantissa + 1024;
  return sign * std::ldexp(static_cast<float>(whole), (exponent == 0 ? 1 : exponent) - 25);
}

uint16_t Bf16FromFloat(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float FloatFromBf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

float LoadElement(Dtype dtype, const void* tensor, size_t i) {
  switch (dtype) {
    case Dtype::kF32:
      return static_cast<const float*>(tensor)[i];
    case Dtype::kF16:
      return FloatFromF16(static_cast<const uint16_t*>(tensor)[i]);
    case Dtype::kBf16:
      return FloatFromBf16(static_cast<const uint16_t*>(tensor)[i]);
  }
  return 0;
}

void StoreElement(Dtype dtype, void* tensor, size_t i, float value) {
  switch (dtype) {
    case Dtype::kF32:
      static_cast<float*>(tensor)[i] = value;
      break;
    case Dtype::kF16:
      static_cast<uint16_t*>(tensor)[i] = F16FromFloat(value);
      break;
    case Dtype::kBf16:
      static_cast<uint16_t*>(tensor)[i] = Bf16FromFloat(value);
      break;
  }
}

}  // namespace ropeline
