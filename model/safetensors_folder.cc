#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "model/config_json.h"
#include "model/json_view.h"
#include "model/safetensors.h"

namespace ropeline {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostBytes = uint64_t{1} << 60;

SafetensorsFile ReadOne(const fs::path& path) {
  std::error_code error;
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  const uintmax_t size = in ? fs::file_size(path, error) : 0;
  if (!in || error) {
    throw BadInput({path.string(), ""}, std::string("cannot be opened: ") + std::strerror(errno),
                   "a safetensors file");
  }
  return ParseSafetensors(in, size, path.string());
}

// `paths` in order, with no tensor twice.
SafetensorsFolder ReadAll(const std::vector<fs::path>& paths, const std::string& source) {
  SafetensorsFolder all;
  all.source = source;
  std::set<std::string> names;
  for (const fs::path& path : paths) {
    SafetensorsFile file = ReadOne(path);
    all.file_bytes += file.file_bytes;
    for (SafetensorsTensor& tensor : file.tensors) {
      const Where where{path.string(), OneLine(tensor.name, 200)};
      if (!names.insert(tensor.name).second)
        throw BadInput(where, "is in another file too", "each tensor once");
      all.tensor_bytes += tensor.bytes;
      if (all.tensor_bytes > kMostBytes)
        throw BadInput(where, "makes the weights larger than 2^60 bytes", "a model");
      all.tensors.push_back(std::move(tensor));
    }
  }
  return all;
}

SafetensorsFolder ReadIndex(const fs::path& index) {
  const nlohmann::json json = ReadConfigJson(index.string(), "an index of safetensors files");
  const JsonView root(json, {index.string(), ""});
  const JsonView map = root.At("weight_map");
  std::set<std::string> names;
  for (const std::string& tensor : map.Keys()) {
    const std::string name = map.At(tensor).String();
    if (name.empty() || fs::path(name) != fs::path(name).filename()) {
      throw BadInput(map.At(tensor).where(), "is " + Quoted(name), "the name of a file in the same folder");
    }
    names.insert(name);
  }
  if (names.empty()) throw BadInput(map.where(), "is empty", "tensors and their files");
  std::vector<fs::path> present;
  std::string missing;
  for (const std::string& name : names) {
    std::error_code error;
    const fs::path path = index.parent_path() / name;
    if (fs::is_regular_file(path, error)) {
      present.push_back(path);
    } else {
      missing = name;
    }
  }
  if (present.size() == names.size()) return ReadAll(present, index.string());
  if (!present.empty()) {
    throw BadInput({index.string(), "weight_map"}, Quoted(missing) + " is not in the folder",
                   "all files, or none");
  }
  SafetensorsFolder folder;
  folder.source = index.string();
  folder.tensor_bytes = root.At("metadata").At("total_size").Count();
  return folder;
}

}  // namespace

std::optional<SafetensorsFolder> FindSafetensors(const std::string& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return std::nullopt;
  const fs::path index = fs::path(folder) / "model.safetensors.index.json";
  if (fs::exists(index, error)) return ReadIndex(index);
  const fs::path single = fs::path(folder) / "model.safetensors";
  if (fs::is_regular_file(single, error)) return ReadAll({single}, single.string());
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".safetensors" && entry.is_regular_file(error))
      paths.push_back(entry.path());
  }
  if (paths.empty()) return std::nullopt;
  std::sort(paths.begin(), paths.end());
  return ReadAll(paths, paths.front().string());
}

}  // namespace ropeline
