// The name of a benchmark row: <family>/<variant>/<dtype>/<target>/<named args>, for example
// qk_rotation/rope_half/f32/AVX3_DL/n:4096/h:32/d:128/cache:hot/threads:1
// Rows of another library carry its name before that of the row of ours that they stand beside:
// peer/ggml-0.25.1/qk_rotation/rope_half/f32/icelake/n:4096/h:32/d:128/cache:hot/threads:1
// Every factor that changes the number stands in the name or in the run's context.
#ifndef ROPELINE_KERNELS_ROW_NAME_H_
#define ROPELINE_KERNELS_ROW_NAME_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ropeline {

struct RowName {
  std::string family;   // stream peak sync input_add score_bias qk_rotation table …
  std::string variant;  // read, fma, rope_half …
  std::string dtype;    // f32, u64 …
  std::string target;   // one Highway target, or "any" where no SIMD is involved
  std::vector<std::pair<std::string, std::string>> args;  // in the order written
  std::string peer{};  // another library and its version: "ggml-0.25.1"; "" for ours

  // The argument's text; nullptr where the row has no such argument.
  const std::string* Arg(std::string_view key) const;
  // The argument as a number; nothing where absent or not a whole number.
  std::optional<size_t> Count(std::string_view key) const;

  RowName& With(std::string_view key, std::string_view value);
  RowName& With(std::string_view key, size_t value);
  std::string Text() const;
  // The same without peer and target: what a row of ours and a peer's have in common.
  std::string Subject() const;
};

// Nothing where the text has fewer than four parts or an argument without a colon. Suffixes that Google
// Benchmark adds ("real_time", "min_time:0.050", "repeats:3", "iterations:9") are left out of args.
// Peers' rows are none of ours: nothing.
std::optional<RowName> ParseRowName(std::string_view text);

// A peer's row; nothing for any other.
std::optional<RowName> ParsePeerRowName(std::string_view text);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_ROW_NAME_H_
