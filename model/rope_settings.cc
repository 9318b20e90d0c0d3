#include "model/rope_settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>

#include "model/units.h"

namespace ropeline {
namespace {

using Apply = std::function<void(const std::string&, const Where&, RopeParameters*)>;

struct Key {
  std::vector<std::string> names;  // the first is canonical
  Apply apply;
};

Apply Real(double RopeParameters::*member) {
  return [member](const std::string& text, const Where& where, RopeParameters* p) {
    p->*member = ParseRealNumber(text, where);
  };
}

Apply Optional(std::optional<double> RopeParameters::*member) {
  return [member](const std::string& text, const Where& where, RopeParameters* p) {
    p->*member = ParseRealNumber(text, where);
  };
}

Apply Tokens(double RopeParameters::*member) {
  return [member](const std::string& text, const Where& where, RopeParameters* p) {
    p->*member = static_cast<double>(ParseCount(text, where));
  };
}

Apply Width(size_t RopeParameters::*member) {
  return [member](const std::string& text, const Where& where, RopeParameters* p) {
    constexpr uint64_t kMaxWidth = 16384;
    p->*member = ParseCount(text, where, kMaxWidth);
  };
}

Apply List(std::vector<double> RopeParameters::*member) {
  return [member](const std::string& text, const Where& where, RopeParameters* p) {
    std::vector<double> list;
    std::string_view rest = text;
    while (true) {
      const size_t comma = rest.find(',');
      list.push_back(ParseRealNumber(rest.substr(0, comma), where));
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
    p->*member = list;
  };
}

void ApplyType(const std::string& text, const Where& where, RopeParameters* p) {
  const auto type = text == "none" ? RopeType::kDefault
                    : text == "pi" ? RopeType::kLinear
                                   : FindRopeType(text);
  if (!type) {
    throw BadInput(
        where, Quoted(text) + " is not known",
        "one of none, default, linear, ntk, dynamic, qwen_dynamic, yarn, llama3, longrope, proportional");
  }
  p->type = *type;
}

void ApplyFactor(double factor, RopeParameters* p) {
  p->factor = factor;
  p->factor_given = true;
}

void ApplyTruncate(const std::string& text, const Where& where, RopeParameters* p) {
  if (text != "true" && text != "false") throw BadInput(where, Quoted(text) + " is neither", "true or false");
  p->truncate = text == "true";
}

const std::vector<Key>& Keys() {
  using P = RopeParameters;
  static const auto* const keys = new std::vector<Key>{
      {{"rope_type", "rope_scaling", "type", "method"}, ApplyType},
      {{"base", "rope_theta", "theta", "rope_freq_base", "freq_base"}, Real(&P::base)},
      {{"factor", "rope_scale"},
       [](const std::string& text, const Where& where, P* p) {
         ApplyFactor(ParseRealNumber(text, where), p);
       }},
      {{"freq_scale", "rope_freq_scale"},
       [](const std::string& text, const Where& where, P* p) {
         ApplyFactor(1 / ParseRealNumber(text, where), p);
       }},
      {{"d_head", "head_dim"}, Width(&P::d_head)},
      {{"d_rot", "rope_dim", "rotary_dim"}, Width(&P::d_rot)},
      {{"original_context", "original_max_position_embeddings", "yarn_orig_ctx", "train"},
       Tokens(&P::original_context)},
      {{"max_context", "max_position_embeddings"}, Tokens(&P::max_context)},
      {{"attention_factor", "yarn_attn_factor"}, Optional(&P::attention_factor)},
      {{"beta_fast", "yarn_beta_fast"}, Optional(&P::beta_fast)},
      {{"beta_slow", "yarn_beta_slow"}, Optional(&P::beta_slow)},
      {{"mscale"}, Optional(&P::mscale)},
      {{"mscale_all_dim"}, Optional(&P::mscale_all_dim)},
      {{"truncate"}, ApplyTruncate},
      {{"low_freq_factor"}, Real(&P::low_freq_factor)},
      {{"high_freq_factor"}, Real(&P::high_freq_factor)},
      {{"short_mscale"}, Optional(&P::short_mscale)},
      {{"long_mscale"}, Optional(&P::long_mscale)},
      {{"short_factor"}, List(&P::short_factor)},
      {{"long_factor"}, List(&P::long_factor)}};
  return *keys;
}

const Key* FindKey(std::string_view name) {
  for (const Key& key : Keys()) {
    if (std::find(key.names.begin(), key.names.end(), name) != key.names.end()) return &key;
  }
  return nullptr;
}

}  // namespace

double ParseRealNumber(std::string_view text, const Where& where) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    throw BadInput(where, Quoted(text) + " is not a number", "a finite number");
  }
  return value;
}

RopeSetting ParseRopeSetting(std::string_view text, const Where& where) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals + 1 == text.size()) {
    throw BadInput(where, Quoted(text) + " sets nothing", "key=value, such as beta_fast=32");
  }
  std::string name(text.substr(0, equals));
  std::replace(name.begin(), name.end(), '-', '_');
  const Key* key = FindKey(name);
  if (key == nullptr) {
    std::string expected = "one of";
    for (const std::string& known : RopeSettingKeys()) expected += " " + known;
    throw BadInput(where, Quoted(name) + " is not a rotary parameter", expected);
  }
  return {key->names.front(), std::string(text.substr(equals + 1))};
}

std::vector<std::string> RopeSettingKeys() {
  std::vector<std::string> names;
  for (const Key& key : Keys()) names.push_back(key.names.front());
  return names;
}

void ApplyRopeSetting(const RopeSetting& setting, const Where& where, RopeParameters* parameters) {
  FindKey(setting.key)->apply(setting.value, {where.file, where.key + " " + setting.key}, parameters);
}

}  // namespace ropeline
