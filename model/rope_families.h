// What families of models were trained with, as their publishers' config.json files say: what a copy that
// lost or changed a rotary key is held against.
#ifndef ROPELINE_MODEL_ROPE_FAMILIES_H_
#define ROPELINE_MODEL_ROPE_FAMILIES_H_

#include <cstdint>
#include <string_view>
#include <vector>

namespace ropeline {

struct RopeFamily {
  const char* model_type;      // of config.json's text part, or general.architecture of a GGUF
  uint64_t vocabulary;         // 0: any
  const char* name;            // for people
  std::vector<double> thetas;  // published
  bool certain;                // no other theta is published: a different one is a mistake
  double class_default;        // theta that the family's configuration class fills in
  double native_context;       // longest context without scaling; 0: published without scaling at any
  double partial_rotary;       // share of the head that turns; 0: not fixed by the family
};

// The entry of that type and vocabulary, else of that type with any; nullptr where unknown.
const RopeFamily* FindRopeFamily(std::string_view model_type, uint64_t vocabulary);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ROPE_FAMILIES_H_
