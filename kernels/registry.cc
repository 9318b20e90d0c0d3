#include "kernels/registry.h"

namespace ropeline {

const std::vector<const Encoding*>& AllEncodings() {
  static const auto* const all = [] {
    auto* list = new std::vector<const Encoding*>;
    for (const auto encodings : {InputAddEncodings(), ScoreBiasEncodings(), QkRotationEncodings()}) {
      for (const Encoding& encoding : encodings) list->push_back(&encoding);
    }
    return list;
  }();
  return *all;
}

const Encoding* FindEncoding(std::string_view name) {
  for (const Encoding* encoding : AllEncodings()) {
    if (encoding->name == name) return encoding;
  }
  return nullptr;
}

}  // namespace ropeline
