#include "kernels/rope_schedule.h"

#include <cmath>

namespace ropeline {
namespace {

struct TypeName {
  RopeType type;
  const char* name;
};

constexpr TypeName kTypeNames[] = {{RopeType::kDefault, "default"},
                                   {RopeType::kLinear, "linear"},
                                   {RopeType::kNtk, "ntk"},
                                   {RopeType::kDynamic, "dynamic"},
                                   {RopeType::kQwenDynamic, "qwen_dynamic"},
                                   {RopeType::kYarn, "yarn"},
                                   {RopeType::kLlama3, "llama3"},
                                   {RopeType::kLongrope, "longrope"},
                                   {RopeType::kProportional, "proportional"}};

}  // namespace

const char* RopeTypeName(RopeType type) {
  for (const TypeName& entry : kTypeNames) {
    if (entry.type == type) return entry.name;
  }
  return "";
}

std::optional<RopeType> FindRopeType(std::string_view name) {
  if (name == "su") return RopeType::kLongrope;
  for (const TypeName& entry : kTypeNames) {
    if (entry.name == name) return entry.type;
  }
  return std::nullopt;
}

std::vector<double> DefaultInvFreq(size_t d_rot, double base) {
  std::vector<double> inv_freq(d_rot / 2);
  for (size_t i = 0; i < inv_freq.size(); ++i) {
    inv_freq[i] = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(d_rot));
  }
  return inv_freq;
}

}  // namespace ropeline
