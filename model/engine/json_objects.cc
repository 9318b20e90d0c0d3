#include "model/engine/json_objects.h"

#include <algorithm>

namespace ropeline {

std::vector<std::string_view> JsonObjectsIn(std::string_view text) {
  std::vector<size_t> open;
  std::vector<std::string_view> closed;  // none within another
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') in_string = false;  // JSON has no line end in a string, prose has odd quotes
    if (in_string && c == '\\') {
      ++i;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && c == '{') {
      open.push_back(i);
    } else if (!in_string && c == '}' && !open.empty()) {
      const size_t begin = open.back();
      open.pop_back();
      while (!closed.empty() && closed.back().data() > text.data() + begin) closed.pop_back();
      closed.push_back(text.substr(begin, i - begin + 1));
    }
  }
  return closed;
}

}  // namespace ropeline
