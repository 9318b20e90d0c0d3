// Numbers as people write them, and back. Every parser takes the whole text or throws BadInput; a bare number
// is refused where a unit is needed, because "20" may be GB/s or GiB/s or MB/s.
#ifndef ROPELINE_MODEL_UNITS_H_
#define ROPELINE_MODEL_UNITS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/bad_input.h"

namespace ropeline {

// What is believed of a machine, typed or measured; anything outside is refused as a slip.
struct Range {
  double least;
  double most;
  bool Has(double value) const { return value >= least && value <= most; }
};
inline constexpr Range kSizeBytes{1, 1e18};         // a byte to an exabyte
inline constexpr Range kBytesPerSecond{1e6, 1e15};  // 1 MB/s to 1 PB/s
inline constexpr Range kFlopsPerSecond{1e6, 1e18};  // 1 MFLOP/s to 1 EFLOP/s

// The largest count of tokens that is taken: far above any model's context, small enough that no product
// overflows.
inline constexpr uint64_t kMaxTokens = uint64_t{1} << 28;

// "32768", "32k", "3.5k", "1m": k is 1024 and m is 1024², as contexts are quoted (a "128k" model has 131,072
// positions). At least 1, at most `max`, and a whole number once multiplied out.
uint64_t ParseCount(std::string_view text, const Where& where, uint64_t max = kMaxTokens);

// Counts separated by commas: "512,4k,32k". Not empty.
std::vector<uint64_t> ParseCountList(std::string_view text, const Where& where, uint64_t max = kMaxTokens);

// Bytes: "3.5GiB", "20GB", "640MB", "512B". KB, MB, GB, TB are powers of ten; KiB, MiB, GiB, TiB of two.
double ParseSizeBytes(std::string_view text, const Where& where);

// Bytes per second: "20GB/s", "33.5GiB/s".
double ParseBytesPerSecond(std::string_view text, const Where& where);

// Flops per second: "50GFLOP/s", "1.2TFLOP/s"; "50GFLOPS" is the same.
double ParseFlopsPerSecond(std::string_view text, const Where& where);

// For people. Digits are grouped by commas; quantities keep three to four figures.
std::string FormatCount(uint64_t count);  // "32,768"
std::string FormatTokens(double tokens);  // "32,768": the nearest count; "1e+300" beyond all counts
std::string FormatBytes(double bytes);    // "3.50 GiB", "112.0 KiB", "640 B"
std::string FormatBytesPerSecond(double bytes_per_second);  // "20.0 GB/s"
std::string FormatFlops(double flops);                      // "196.6 TFLOP"
std::string FormatFlopsPerSecond(double flops_per_second);  // "50.0 GFLOP/s"
std::string FormatMilliseconds(double ms);                  // "187.9 ms", "12.3 µs", "3.93 s"
std::string FormatSeconds(double seconds);                  // "3,932 s (1 h 6 min)", "8.21 s", "12.3 ms"
std::string FormatPercent(double fraction);                 // "12.3 %", "0.004 %", "< 0.001 %"
std::string FormatRate(double per_second);                  // "3.47", "12.3", "1,235"

}  // namespace ropeline

#endif  // ROPELINE_MODEL_UNITS_H_
