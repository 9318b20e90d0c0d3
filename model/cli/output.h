// Writing the answer: one piece, to stdout. A failure shows at exit (main flushes and checks).
#ifndef ROPELINE_MODEL_CLI_OUTPUT_H_
#define ROPELINE_MODEL_CLI_OUTPUT_H_

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

namespace ropeline {

inline void Print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

// A string that is not UTF-8 (a path, say) has its bad bytes replaced.
inline void Print(const nlohmann::ordered_json& json) {
  Print(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

}  // namespace ropeline

#endif  // ROPELINE_MODEL_CLI_OUTPUT_H_
