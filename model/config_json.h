// Text of a config.json as Python writes it, or of a benchmark's output as C does: JSON, but for the bare
// tokens NaN, Infinity and -Infinity, or nan and inf. These become strings, so that a reader which needs such
// a value as a number says so.
#ifndef ROPELINE_MODEL_CONFIG_JSON_H_
#define ROPELINE_MODEL_CONFIG_JSON_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace ropeline {

// Throws BadInput where `text` is not JSON, ends early, is nested deeper than 64, has a key twice in one
// object, or is no object. `file` and `expected` are for the message.
nlohmann::json ParseConfigJson(std::string_view text, const std::string& file, std::string_view expected);

// The same from a file, which may be at most 64 MiB and must be a regular one.
nlohmann::json ReadConfigJson(const std::string& path, std::string_view expected);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_CONFIG_JSON_H_
