#include "model/engine/plain_text.h"

#include "model/engine/run_words.h"

namespace ropeline {
namespace {

std::string FromUtf16(std::string_view raw, bool big_endian) {
  std::string text;
  for (size_t i = 0; i + 1 < raw.size(); i += 2) {
    const char low = raw[big_endian ? i + 1 : i];
    const char high = raw[big_endian ? i : i + 1];
    const bool ascii = high == 0 && static_cast<unsigned char>(low) < 0x80;
    text += ascii ? low : '?';
  }
  return text;
}

// ESC [ … letter
std::string WithoutColours(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\x1b' || i + 1 >= text.size() || text[i + 1] != '[') {
      plain += text[i];
      continue;
    }
    i = text.find_first_not_of("0123456789;?", i + 2);
    if (i == std::string_view::npos) break;
  }
  return plain;
}

}  // namespace

std::string PlainText(std::string_view raw, const Where& where, std::string_view expected) {
  std::string text;
  if (raw.substr(0, 2) == "\xff\xfe" || raw.substr(0, 2) == "\xfe\xff") {
    text = FromUtf16(raw.substr(2), raw[0] == '\xfe');
  } else {
    text = raw.substr(raw.substr(0, 3) == "\xef\xbb\xbf" ? 3 : 0);
  }
  if (text.find('\0') != std::string::npos) throw BadInput(where, "is binary", expected);
  text = WithoutColours(text);
  if (Trim(text).empty()) throw BadInput(where, "is empty", expected);
  return text;
}

}  // namespace ropeline
