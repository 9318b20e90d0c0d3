#include "model/gguf_keys.h"

#include <algorithm>

namespace ropeline {

GgufKeys::GgufKeys(const GgufFile& file)
    : file_(file), architecture_(file.metadata.Text("general.architecture")) {
  for (const GgufTensor& tensor : file.tensors) tensors_[tensor.name] = &tensor;
}

void GgufKeys::CheckRange(const GgufKey& key, uint64_t count) const {
  if (count >= key.least && count <= key.most) return;
  throw BadInput(WhereIs(key.name), "is " + std::to_string(count),
                 "from " + std::to_string(key.least) + " to " + std::to_string(key.most));
}

std::optional<uint64_t> GgufKeys::FindCount(const GgufKey& key) const {
  const auto count = file_.metadata.FindCount(Full(key.name));
  if (count) CheckRange(key, *count);
  return count;
}

std::optional<std::vector<uint64_t>> GgufKeys::FindCounts(const GgufKey& key, uint64_t n) const {
  const auto counts = file_.metadata.FindCounts(Full(key.name), n);
  if (counts) {
    for (const uint64_t count : *counts) CheckRange(key, count);
  }
  return counts;
}

std::optional<double> GgufKeys::FindNumber(std::string_view name) const {
  return file_.metadata.FindNumber(Full(name));
}
std::optional<bool> GgufKeys::FindBool(std::string_view name) const {
  return file_.metadata.FindBool(Full(name));
}
std::optional<std::string> GgufKeys::FindText(std::string_view name) const {
  return file_.metadata.FindText(Full(name));
}

uint64_t GgufKeys::Count(const GgufKey& key) const {
  if (const auto count = FindCount(key)) return *count;
  Missing(key.name, "a whole number");
}

void GgufKeys::Missing(std::string_view name, std::string_view expected) const {
  throw BadInput(WhereIs(name), "is missing", expected);
}

const GgufTensor* GgufKeys::FindTensor(std::string_view name) const {
  const auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : it->second;
}

const GgufTensor* GgufKeys::OfLayer(uint64_t layer, std::string_view name) const {
  return FindTensor("blk." + std::to_string(layer) + "." + std::string(name) + ".weight");
}

void GgufKeys::NoteFilled(std::string_view name, std::string_view value) const {
  const std::string note = std::string(name) + " " + std::string(value);
  if (std::find(filled_.begin(), filled_.end(), note) == filled_.end()) filled_.push_back(note);
}

std::string GgufKeys::FilledWarning() const {
  std::string list;
  for (const std::string& note : filled_) list += (list.empty() ? "" : ", ") + note;
  return list.empty()
             ? ""
             : "the file does not say, taken as llama.cpp takes it for " + architecture_ + ": " + list;
}

}  // namespace ropeline
