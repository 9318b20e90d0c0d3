// An input that cannot be used: a file, a flag or a name that a user can mend. The program prints it as one
// line on stderr, writes nothing else and exits with kBadInputExit. A broken invariant of our own is not a
// BadInput.
#ifndef ROPELINE_MODEL_BAD_INPUT_H_
#define ROPELINE_MODEL_BAD_INPUT_H_

#include <stdexcept>
#include <string>
#include <string_view>

namespace ropeline {

inline constexpr int kBadInputExit = 2;

// Where an input came from: {"results/x/bench.json", "context.ropeline.schema"}, {"command line",
// "--context"}.
struct Where {
  std::string file;
  std::string key;  // "" where the whole file is meant
};

// Control characters become '?' (a line stays a line) and a long text is cut, so that hostile input stays
// readable.
inline std::string OneLine(std::string_view text, size_t max_bytes) {
  std::string line;
  for (const char c : text.substr(0, max_bytes)) {
    line += (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) ? '?' : c;
  }
  if (text.size() > max_bytes) line += "…";
  return line;
}

// A value as it was given: "3.5.2k" in quotes, at most 60 bytes of it.
inline std::string Quoted(std::string_view text) { return '"' + OneLine(text, 60) + '"'; }

class BadInput : public std::runtime_error {
 public:
  // what() is "file: key: wrong, expected …", one line.
  BadInput(const Where& where, std::string_view wrong, std::string_view expected)
      : std::runtime_error(OneLine(Text(where, wrong, expected), 2000)) {}

 private:
  static std::string Text(const Where& where, std::string_view wrong, std::string_view expected) {
    std::string text = where.file + ": ";
    if (!where.key.empty()) text += where.key + ": ";
    return text.append(wrong).append(", expected ").append(expected);
  }
};

}  // namespace ropeline

#endif  // ROPELINE_MODEL_BAD_INPUT_H_
