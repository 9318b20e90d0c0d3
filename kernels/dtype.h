// How a tensor's elements are stored. Arithmetic is f32 whatever the storage.
#ifndef ROPELINE_KERNELS_DTYPE_H_
#define ROPELINE_KERNELS_DTYPE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ropeline {

enum class Dtype {
  kF32,   // IEEE 754 binary32
  kF16,   // IEEE 754 binary16: 5 exponent bits, 10 of mantissa; largest 65,504
  kBf16,  // the upper half of an f32: 8 exponent bits, 7 of mantissa
};

inline constexpr std::array kAllDtypes = {Dtype::kF32, Dtype::kF16, Dtype::kBf16};

constexpr size_t DtypeBytes(Dtype dtype) { return dtype == Dtype::kF32 ? 4 : 2; }
const char* DtypeName(Dtype dtype);                      // "f32", "f16", "bf16"
std::optional<Dtype> ParseDtype(std::string_view name);  // nothing for any other text
double RoundingUnit(Dtype dtype);                        // half an ulp of 1: 2^-24, 2^-11, 2^-8

// Round to nearest, ties to even. Beyond the largest finite value: infinity. NaN stays NaN.
uint16_t F16FromFloat(float value);
uint16_t Bf16FromFloat(float value);
float FloatFromF16(uint16_t bits);
float FloatFromBf16(uint16_t bits);

// One element of a tensor [elements] of that dtype.
float LoadElement(Dtype dtype, const void* tensor, size_t i);
void StoreElement(Dtype dtype, void* tensor, size_t i, float value);  // rounds

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_DTYPE_H_
