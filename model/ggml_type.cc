#include "model/ggml_type.h"

#include <array>

namespace ropeline {
namespace {

// Bytes from the structs of ggml-common.h.
constexpr BlockFormat kQ81{"q8_1", 32, 36};
constexpr BlockFormat kQ8K{"q8_K", 256, 292};
constexpr BlockFormat kIq2Xxs{"iq2_xxs", 256, 66};
constexpr BlockFormat kIq2Xs{"iq2_xs", 256, 74};
constexpr BlockFormat kIq3Xxs{"iq3_xxs", 256, 98};
constexpr BlockFormat kIq1S{"iq1_s", 256, 50};
constexpr BlockFormat kIq3S{"iq3_s", 256, 110};
constexpr BlockFormat kIq2S{"iq2_s", 256, 82};
constexpr BlockFormat kI8{"i8", 1, 1};
constexpr BlockFormat kI16{"i16", 1, 2};
constexpr BlockFormat kI32{"i32", 1, 4};
constexpr BlockFormat kI64{"i64", 1, 8};
constexpr BlockFormat kF64{"f64", 1, 8};
constexpr BlockFormat kIq1M{"iq1_m", 256, 56};
constexpr BlockFormat kQ40Interleaved4x4{"q4_0_4_4", 32, 18};
constexpr BlockFormat kQ40Interleaved4x8{"q4_0_4_8", 32, 18};
constexpr BlockFormat kQ40Interleaved8x8{"q4_0_8_8", 32, 18};
constexpr BlockFormat kTq10{"tq1_0", 256, 54};
constexpr BlockFormat kTq20{"tq2_0", 256, 66};
constexpr BlockFormat kIq4NlInterleaved4x4{"iq4_nl_4_4", 32, 18};
constexpr BlockFormat kIq4NlInterleaved4x8{"iq4_nl_4_8", 32, 18};
constexpr BlockFormat kIq4NlInterleaved8x8{"iq4_nl_8_8", 32, 18};
constexpr BlockFormat kMxfp4{"mxfp4", 32, 17};
constexpr BlockFormat kNvfp4{"nvfp4", 64, 36};
constexpr BlockFormat kQ10{"q1_0", 128, 18};
constexpr BlockFormat kQ20{"q2_0", 64, 18};

constexpr std::array<const BlockFormat*, 43> kTypes = {&kBlockF32,
                                                       &kBlockF16,
                                                       &kBlockQ40,
                                                       &kBlockQ41,
                                                       nullptr,
                                                       nullptr,
                                                       &kBlockQ50,
                                                       &kBlockQ51,
                                                       &kBlockQ80,
                                                       &kQ81,
                                                       &kBlockQ2K,
                                                       &kBlockQ3K,
                                                       &kBlockQ4K,
                                                       &kBlockQ5K,
                                                       &kBlockQ6K,
                                                       &kQ8K,
                                                       &kIq2Xxs,
                                                       &kIq2Xs,
                                                       &kIq3Xxs,
                                                       &kIq1S,
                                                       &kBlockIq4Nl,
                                                       &kIq3S,
                                                       &kIq2S,
                                                       &kBlockIq4Xs,
                                                       &kI8,
                                                       &kI16,
                                                       &kI32,
                                                       &kI64,
                                                       &kF64,
                                                       &kIq1M,
                                                       &kBlockBf16,
                                                       &kQ40Interleaved4x4,
                                                       &kQ40Interleaved4x8,
                                                       &kQ40Interleaved8x8,
                                                       &kTq10,
                                                       &kTq20,
                                                       &kIq4NlInterleaved4x4,
                                                       &kIq4NlInterleaved4x8,
                                                       &kIq4NlInterleaved8x8,
                                                       &kMxfp4,
                                                       &kNvfp4,
                                                       &kQ10,
                                                       &kQ20};

}  // namespace

const BlockFormat* FindGgmlType(uint32_t number) { return number < kTypes.size() ? kTypes[number] : nullptr; }

}  // namespace ropeline
