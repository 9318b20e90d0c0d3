#include "model/hf_config.h"

#include <algorithm>
#include <functional>

namespace ropeline {
namespace {

// Calls `use` with each name until it says true.
bool AnyName(std::string_view names, const std::function<bool(std::string_view)>& use) {
  while (!names.empty()) {
    const size_t end = std::min(names.find(' '), names.size());
    if (end > 0 && use(names.substr(0, end))) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

std::string FirstName(const HfKey& key) {
  const std::string_view names = key.names;
  return std::string(names.substr(0, names.find(' ')));
}

// The object that holds the last part of a dotted name; nothing where there is none.
std::optional<JsonView> Holder(JsonView view, std::string_view* name) {
  for (size_t dot; (dot = name->find('.')) != std::string_view::npos; name->remove_prefix(dot + 1)) {
    const auto inner = view.Find(name->substr(0, dot));
    if (!inner || !inner->is_object()) return std::nullopt;
    view = *inner;
  }
  return view;
}

}  // namespace

JsonView TextPart(const nlohmann::json& root, const std::string& file) {
  JsonView part(root, {file, ""});
  if (part.FindString("model_type") == "t5gemma") {
    if (const auto decoder = part.Find("decoder"); decoder && decoder->is_object()) return *decoder;
  }
  for (bool deeper = true; deeper;) {
    deeper = false;
    for (const char* name :
         {"text_config", "llm_config", "language_config", "thinker_config", "text_model_config"}) {
      const auto inner = part.Find(name);
      if (!inner || !inner->is_object() || inner->Keys().empty()) continue;
      part = *inner;
      deeper = true;
      break;
    }
  }
  return part;
}

HfConfig::HfConfig(const nlohmann::json& root, const std::string& file, const std::string& family,
                   const char* defaults)
    : HfConfig(JsonView(root, {file, ""}), TextPart(root, file), family, defaults) {}

HfConfig::HfConfig(const JsonView& root, const JsonView& part, const std::string& family,
                   const char* defaults)
    : family_(family), root_(root), text_(part), defaults_(nlohmann::json::parse(defaults)) {}

std::string HfConfig::ModelType() const {
  const auto type = text_.FindString("model_type");
  return type ? *type : root_.FindString("model_type").value_or("");
}

std::optional<JsonView> HfConfig::InFile(const HfKey& key, bool* given) const {
  std::optional<JsonView> found;
  *given = false;
  AnyName(key.names, [&](std::string_view name) {
    const auto holder = Holder(text_, &name);
    if (!holder || !holder->Has(name)) return false;
    *given = true;
    found = holder->Find(name);
    return found.has_value();
  });
  return found;
}

bool HfConfig::Given(const HfKey& key) const {
  bool given = false;
  InFile(key, &given);
  return given;
}

std::optional<JsonView> HfConfig::Find(const HfKey& key) const {
  bool given = false;
  auto found = InFile(key, &given);
  if (given) return found;
  const std::string name = FirstName(key);
  const auto it = defaults_.find(name);
  if (it == defaults_.end() || it->is_null()) return std::nullopt;
  NoteFilled(name, it->dump());
  return JsonView(*it, {text_.where().file, name});
}

uint64_t CountIn(const JsonView& value, const HfKey& key) {
  const uint64_t count = value.Count();
  if (count < key.least || count > key.most) {
    throw BadInput(value.where(), "is " + std::to_string(count),
                   "a number from " + std::to_string(key.least) + " to " + std::to_string(key.most));
  }
  return count;
}

std::optional<uint64_t> HfConfig::FindCount(const HfKey& key) const {
  const auto found = Find(key);
  return found ? std::optional(CountIn(*found, key)) : std::nullopt;
}

std::optional<double> HfConfig::FindNumber(const HfKey& key) const {
  const auto found = Find(key);
  return found ? std::optional(found->Number()) : std::nullopt;
}

bool HfConfig::Is(const HfFlag& flag) const {
  const auto found = Find(HfKey{flag.names});
  if (!found) return flag.otherwise;
  return found->is_boolean() ? found->Bool() : found->Count() != 0;
}

uint64_t HfConfig::Count(const HfKey& key) const {
  if (const auto count = FindCount(key)) return *count;
  Missing(key, "a whole number");
}

void HfConfig::Missing(const HfKey& key, std::string_view expected) const {
  const std::string prefix = text_.where().key.empty() ? "" : text_.where().key + ".";
  throw BadInput({text_.where().file, prefix + FirstName(key)}, "is missing", expected);
}

std::optional<std::vector<uint64_t>> HfConfig::FindCounts(const HfKey& key, size_t n) const {
  const auto found = Find(key);
  if (!found) return std::nullopt;
  std::vector<uint64_t> counts;
  for (const JsonView& item : found->Items()) counts.push_back(CountIn(item, key));
  if (counts.size() < n) {
    throw BadInput(found->where(), "has " + std::to_string(counts.size()) + " entries",
                   "one for each of " + std::to_string(n) + " layers");
  }
  return counts;
}

std::optional<std::vector<std::string>> HfConfig::FindStrings(const HfKey& key, size_t n) const {
  const auto found = Find(key);
  if (!found) return std::nullopt;
  std::vector<std::string> strings;
  for (const JsonView& item : found->Items()) strings.push_back(item.String());
  if (strings.size() < n) {
    throw BadInput(found->where(), "has " + std::to_string(strings.size()) + " entries",
                   "one for each of " + std::to_string(n) + " layers");
  }
  return strings;
}

void HfConfig::NoteFilled(std::string_view key, std::string_view value) const {
  const std::string note = std::string(key) + " " + std::string(value);
  if (std::find(filled_.begin(), filled_.end(), note) == filled_.end()) filled_.push_back(note);
}

std::string HfConfig::FilledWarning() const {
  if (filled_.empty()) return "";
  std::string text = "not in the file, taken from the defaults of " + family_ + ": ";
  for (size_t i = 0; i < filled_.size(); ++i) text += (i > 0 ? ", " : "") + filled_[i];
  return text;
}

}  // namespace ropeline
