#include "model/ways_to_pay.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

namespace ropeline {
namespace {

// Forms that are compared with one of themselves. A new form that replaces the plain row needs no entry.
struct Siblings {
  std::vector<std::string_view> forms;
  std::string_view base_form;
  std::string_view base_variant;  // "": the row's own encoding
};

const std::vector<Siblings>& SiblingSets() {
  static const auto* const sets = new std::vector<Siblings>{
      {{"rotate_then_write", "cache_write", "write_only"}, "rotate_then_write", ""},
      {{"q_before_attention", "q_in_attention"}, "q_before_attention", ""},
      {{"tile"}, "tile", "none"},
  };
  return *sets;
}

std::string_view Form(const RowName& name) {
  const std::string* form = name.Arg("form");
  return form != nullptr ? std::string_view(*form) : std::string_view();
}

bool IsWay(const RowName& name) { return !Form(name).empty() || name.Arg("angles") != nullptr; }

const Siblings* SetOf(const RowName& name) {
  for (const Siblings& set : SiblingSets()) {
    if (std::find(set.forms.begin(), set.forms.end(), Form(name)) != set.forms.end()) return &set;
  }
  return nullptr;
}

bool TellsTheWay(std::string_view key) { return key == "form" || key == "angles" || key == "bias"; }

std::string WayText(const RowName& name) {
  std::string text;
  for (const auto& [key, value] : name.args) {
    if (!TellsTheWay(key)) continue;
    text += text.empty() ? "" : ", ";
    text += key == "bias" ? "bias " + value : value;
  }
  return text.empty() ? "plain" : text;
}

// What all rows of a group have in common.
struct GroupKey {
  std::string family, variant;
  const Siblings* set = nullptr;
  std::vector<std::pair<std::string, std::string>> args;

  friend bool operator==(const GroupKey&, const GroupKey&) = default;
};

GroupKey KeyOf(const RowName& name, const Siblings* set) {
  const bool across = set != nullptr && !set->base_variant.empty();
  GroupKey key{name.family, across ? "" : name.variant, set, {}};
  for (const auto& arg : name.args) {
    if (!TellsTheWay(arg.first)) key.args.push_back(arg);
  }
  std::sort(key.args.begin(), key.args.end());
  return key;
}

std::string ShapeText(const RowName& name) {
  std::string text;
  for (const auto& [key, value] : name.args) {
    if (TellsTheWay(key) || key == "cache" || key == "threads") continue;
    text += (text.empty() ? "" : " ") + key + ":" + value;
  }
  return text;
}

bool IsBase(const RowName& name, const Siblings* set) {
  if (set == nullptr) return !IsWay(name);
  return Form(name) == set->base_form && (set->base_variant.empty() || name.variant == set->base_variant);
}

}  // namespace

std::vector<WayToPay> WaysToPay(const CompareRequest& request, const Machine& machine) {
  const auto wanted = [&](const RowName& name) {
    const auto& list = request.Encodings();
    return std::any_of(list.begin(), list.end(), [&](const Encoding* encoding) {
      return name.variant == encoding->name && name.family == PlacementName(encoding->placement);
    });
  };
  std::vector<const MeasuredRow*> rows;
  for (const MeasuredRow& row : machine.rows) {
    const bool of_this_run = machine.target.empty() || row.name.target == machine.target;
    if (of_this_run && row.name.dtype == DtypeName(request.dtype) && row.call_ns > 0 &&
        row.name.Count("threads") == static_cast<size_t>(request.threads)) {
      rows.push_back(&row);
    }
  }
  std::vector<std::pair<GroupKey, std::vector<const MeasuredRow*>>> groups;
  for (const MeasuredRow* row : rows) {
    if (!IsWay(row->name) || !wanted(row->name)) continue;
    GroupKey key = KeyOf(row->name, SetOf(row->name));
    const auto at = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == key; });
    if (at != groups.end()) {
      at->second.push_back(row);
    } else {
      groups.push_back({std::move(key), {row}});
    }
  }
  std::vector<WayToPay> ways;
  for (size_t g = 0; g < groups.size(); ++g) {
    auto& [key, members] = groups[g];
    for (const MeasuredRow* row : rows) {
      if (!IsBase(row->name, key.set) || !(KeyOf(row->name, key.set) == key)) continue;
      std::erase(members, row);
      members.insert(members.begin(), row);
      break;
    }
    for (const MeasuredRow* row : members) {
      WayToPay way;
      way.group = g;
      way.base = row == members.front();
      way.row = row;
      way.way = WayText(row->name);
      way.shape = ShapeText(row->name);
      if (row->bytes_per_second) way.bytes = *row->bytes_per_second * row->call_ns / 1e9;
      way.ratio = row->call_ns / members.front()->call_ns;
      ways.push_back(std::move(way));
    }
  }
  return ways;
}

std::vector<std::string> CounterKeys(const std::vector<WayToPay>& ways, const std::string& prefix) {
  std::set<std::string> keys;
  for (const WayToPay& way : ways) {
    for (const auto& [key, value] : way.row->counters) {
      if (key.starts_with(prefix)) keys.insert(key);
    }
  }
  // "angle_error_32k" → ("angle_error", 32·1024): a count at the end is a number of tokens.
  const auto order = [](const std::string& key) {
    const size_t at = key.rfind('_') + 1;
    size_t digits = at;
    while (digits < key.size() && key[digits] >= '0' && key[digits] <= '9') ++digits;
    if (digits == at || digits - at > 9) return std::pair(key, 0.0);
    const char unit = digits < key.size() ? key[digits] : ' ';
    const double scale = unit == 'k' ? 1024 : unit == 'm' ? 1024 * 1024 : 1;
    return std::pair(key.substr(0, at), scale * std::stod(key.substr(at, digits - at)));
  };
  std::vector<std::string> sorted(keys.begin(), keys.end());
  std::sort(sorted.begin(), sorted.end(),
            [&](const auto& a, const auto& b) { return std::pair(order(a), a) < std::pair(order(b), b); });
  return sorted;
}

}  // namespace ropeline
