// Objects of JSON in a text that may hold anything else: an array, one object per line, a report with JSON
// in it. An array that is cut short keeps its whole objects.
#ifndef ROPELINE_MODEL_ENGINE_JSON_OBJECTS_H_
#define ROPELINE_MODEL_ENGINE_JSON_OBJECTS_H_

#include <cstddef>
#include <string_view>
#include <vector>

namespace ropeline {

// The outermost {…} that are closed, in order. Braces within strings do not count.
std::vector<std::string_view> JsonObjectsIn(std::string_view text);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ENGINE_JSON_OBJECTS_H_
