// Words in which benchmarks and the people who post their output name formats.
#ifndef ROPELINE_MODEL_ENGINE_RUN_WORDS_H_
#define ROPELINE_MODEL_ENGINE_RUN_WORDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ropeline {

inline constexpr uint64_t kMaxThreads = 1 << 16;

std::string_view Trim(std::string_view text);  // of blanks, tabs and line ends
std::string LowerCase(std::string_view text);

// "fp16" → "f16", "q8_0" → "q8_0", "" → ""; nothing where the text is more than one word.
std::optional<std::string> OneCacheType(std::string_view written);

// "IQ4_K_R4 (4.5 bpw)" → "IQ4_K_R4", "IQ4_XS -> IQ4_XS_R4" → "IQ4_XS_R4"; "" where none is stated.
std::string WeightFormatWord(std::string_view written);
// "IQ4_K_R4 (4.5 bpw)" → 4.5
std::optional<double> BitsPerWeight(std::string_view written);

// The format in a model's description or file name: "llama 1B Q4_K - Medium" → "Q4_K_M",
// "Qwen3-14B-IQ4_KS.gguf" → "IQ4_KS"; "" where there is none.
std::string FileTypeIn(std::string_view description);

// "1", "true", "on" → true; "0", "false", "off" → false; nothing for others ("auto", "-1").
std::optional<bool> YesOrNo(std::string_view written);

// "1 (FlashMLA)" → 1; nothing where the text does not begin with a digit.
std::optional<int> LeadingDigit(std::string_view written);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ENGINE_RUN_WORDS_H_
