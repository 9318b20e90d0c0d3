#include "kernels/row_name.h"

#include <charconv>

namespace ropeline {

namespace {

constexpr std::string_view kPeer = "peer/";

// Suffixes of Google Benchmark that are no factor of ours. Its "threads:T" is one.
bool IsBenchmarkSuffix(std::string_view part) {
  for (std::string_view prefix : {"min_time:", "min_warmup_time:", "repeats:", "iterations:"}) {
    if (part.substr(0, prefix.size()) == prefix) return true;
  }
  return part == "real_time" || part == "process_time" || part == "manual_time";
}

}  // namespace

const std::string* RowName::Arg(std::string_view key) const {
  for (const auto& [name, value] : args) {
    if (name == key) return &value;
  }
  return nullptr;
}

std::optional<size_t> RowName::Count(std::string_view key) const {
  const std::string* text = Arg(key);
  if (text == nullptr || text->empty()) return std::nullopt;
  size_t value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

RowName& RowName::With(std::string_view key, std::string_view value) {
  args.emplace_back(key, value);
  return *this;
}

RowName& RowName::With(std::string_view key, size_t value) { return With(key, std::to_string(value)); }

std::string RowName::Text() const {
  std::string text = peer.empty() ? "" : std::string(kPeer) + peer + "/";
  text += family + "/" + variant + "/" + dtype + "/" + target;
  for (const auto& [key, value] : args) text += "/" + key + ":" + value;
  return text;
}

std::string RowName::Subject() const {
  RowName subject = *this;
  subject.peer.clear();
  subject.target = "*";
  return subject.Text();
}

std::optional<RowName> ParsePeerRowName(std::string_view text) {
  if (text.substr(0, kPeer.size()) != kPeer) return std::nullopt;
  text.remove_prefix(kPeer.size());
  const size_t slash = text.find('/');
  if (slash == 0 || slash == std::string_view::npos) return std::nullopt;
  auto name = ParseRowName(text.substr(slash + 1));
  if (name) name->peer = text.substr(0, slash);
  return name;
}

std::optional<RowName> ParseRowName(std::string_view text) {
  if (text.substr(0, kPeer.size()) == kPeer) return std::nullopt;
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    const size_t slash = text.find('/', begin);
    parts.push_back(text.substr(begin, slash - begin));
    if (slash == std::string_view::npos) break;
    begin = slash + 1;
  }
  if (parts.size() < 4) return std::nullopt;
  RowName name{
      std::string(parts[0]), std::string(parts[1]), std::string(parts[2]), std::string(parts[3]), {}};
  for (size_t i = 4; i < parts.size(); ++i) {
    if (IsBenchmarkSuffix(parts[i])) continue;
    const size_t colon = parts[i].find(':');
    if (colon == std::string_view::npos) return std::nullopt;
    name.With(parts[i].substr(0, colon), parts[i].substr(colon + 1));
  }
  return name;
}

}  // namespace ropeline
