#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "model/bounded_reader.h"
#include "model/gguf_file.h"

namespace ropeline {
namespace {

constexpr const char* kExpected = "a GGUF file";

// name-00002-of-00003.gguf
struct ShardName {
  std::string stem;  // up to "-00002"
  uint64_t number = 0;
  uint64_t count = 0;
};

bool Digits(std::string_view text) { return text.find_first_not_of("0123456789") == std::string_view::npos; }

std::optional<ShardName> ParseShardName(const std::string& path) {
  constexpr size_t kTail = sizeof("-00002-of-00003.gguf") - 1;
  if (path.size() <= kTail) return std::nullopt;
  const std::string tail = path.substr(path.size() - kTail);
  const std::string number = tail.substr(1, 5), count = tail.substr(10, 5);
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || tail.substr(15) != ".gguf" || !Digits(number) ||
      !Digits(count)) {
    return std::nullopt;
  }
  return ShardName{path.substr(0, path.size() - kTail), std::stoull(number), std::stoull(count)};
}

std::string FiveDigits(uint64_t number) {
  const std::string digits = std::to_string(number);
  return std::string(5 - std::min<size_t>(5, digits.size()), '0') + digits;
}

GgufFile ReadOne(const std::string& path) {
  if (path.empty()) throw BadInput({"\"\"", ""}, "is no file name", kExpected);
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw BadInput({path, ""}, "is not a regular file", kExpected);
  }
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  const uintmax_t size = in ? std::filesystem::file_size(path, error) : 0;
  if (!in || error) {
    throw BadInput({path, ""}, std::string("cannot be opened: ") + std::strerror(errno), kExpected);
  }
  return ParseGguf(in, size, path);
}

// Throws BadInput where the shard is not the `number`th (from 1) of `count`.
void CheckShard(const GgufFile& shard, uint64_t number, uint64_t count) {
  const auto expect = [&](std::string_view key, uint64_t expected) {
    const uint64_t found = shard.metadata.Count(key);
    if (found != expected) {
      throw BadInput(shard.metadata.WhereIs(key), "is " + std::to_string(found),
                     std::to_string(expected) + ", as the file's name says");
    }
  };
  expect("split.count", count);
  expect("split.no", number - 1);
}

}  // namespace

bool LooksLikeGguf(const std::string& path) {
  if (path.size() >= 5 && path.compare(path.size() - 5, 5, ".gguf") == 0) return true;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  std::ifstream in(path, std::ios::binary);
  char magic[4] = {};
  return in.read(magic, 4) && std::memcmp(magic, "GGUF", 4) == 0;
}

GgufFile ReadGgufFile(const std::string& path) {
  GgufFile given = ReadOne(path);
  const uint64_t count = given.metadata.FindCount("split.count").value_or(1);
  if (count <= 1) return given;
  const auto name = ParseShardName(path);
  if (!name || name->count != count || name->number < 1 || name->number > count) {
    throw BadInput(given.metadata.WhereIs("split.count"), "is " + std::to_string(count),
                   "a file name that ends in -00001-of-" + FiveDigits(count) + ".gguf");
  }
  const auto shard_path = [&](uint64_t number) {
    return name->stem + "-" + FiveDigits(number) + "-of-" + FiveDigits(count) + ".gguf";
  };
  GgufFile all = name->number == 1 ? std::move(given) : ReadOne(shard_path(1));
  CheckShard(all, 1, count);
  for (uint64_t number = 2; number <= count; ++number) {
    GgufFile shard = ReadOne(shard_path(number));
    CheckShard(shard, number, count);
    all.file_bytes += shard.file_bytes;
    all.header_bytes += shard.header_bytes;
    all.data_present = all.data_present && shard.data_present;
    for (GgufTensor& tensor : shard.tensors) tensor.shard = static_cast<uint32_t>(number - 1);
    all.shards.push_back(shard.shards.front());
    std::move(shard.tensors.begin(), shard.tensors.end(), std::back_inserter(all.tensors));
  }
  CheckTensorNames(all);
  constexpr const char* kTensors = "split.tensors.count";
  if (const auto tensors = all.metadata.FindCount(kTensors); tensors && *tensors != all.tensors.size()) {
    throw BadInput(
        all.metadata.WhereIs(kTensors), "is " + std::to_string(*tensors),
        std::to_string(all.tensors.size()) + ", which the " + std::to_string(count) + " shards hold");
  }
  return all;
}

std::optional<std::vector<double>> ReadSmallTensor(const GgufFile& file, const GgufTensor& tensor) {
  constexpr uint64_t kMostElements = 4096;
  if (!file.data_present || tensor.type != &kBlockF32 || tensor.Elements() > kMostElements)
    return std::nullopt;
  const GgufShard& shard = file.shards[tensor.shard];
  std::ifstream in(shard.path, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(shard.data_start + tensor.offset));
  if (!in) return std::nullopt;
  BoundedReader reader(in, tensor.bytes, tensor.bytes);
  reader.set_big_endian(file.big_endian);
  std::vector<double> values;
  for (uint64_t i = 0; i < tensor.Elements(); ++i) {
    const uint64_t bits = reader.ReadUnsigned(4, {shard.path, tensor.name});
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    if (!(values.back() > 0) || !std::isfinite(values.back())) return std::nullopt;
  }
  return values;
}

}  // namespace ropeline
