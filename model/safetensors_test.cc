#include "model/safetensors.h"

#include <gtest/gtest.h>

#include <sstream>

#include "model/bad_input.h"
#include "model/fake_gguf.h"

namespace ropeline {
namespace {

std::string File(const std::string& header, uint64_t data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(header.size() >> 8 * i & 0xff);
  return bytes + header + std::string(data, '\0');
}

SafetensorsFile Parse(const std::string& bytes) {
  std::istringstream in(bytes);
  return ParseSafetensors(in, bytes.size(), "x.safetensors");
}

std::string Error(const std::string& bytes) {
  try {
    Parse(bytes);
  } catch (const BadInput& e) {
    return e.what();
  }
  return "no BadInput";
}

constexpr const char* kTwo =
    R"({"__metadata__":{"format":"pt"},"a.weight":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},
        "b":{"dtype":"F8_E4M3","shape":[],"data_offsets":[12,13]}}   )";

TEST(SafetensorsTest, NamesTypesAndBytes) {
  const SafetensorsFile file = Parse(File(kTwo, 13));
  ASSERT_EQ(file.tensors.size(), 2u);
  EXPECT_EQ(file.tensors[0].name, "a.weight");
  EXPECT_EQ(file.tensors[0].dtype, "BF16");
  EXPECT_EQ(file.tensors[0].elements, 6u);
  EXPECT_EQ(file.tensors[0].bytes, 12u);
  EXPECT_EQ(file.tensors[1].bytes, 1u);
  EXPECT_EQ(Parse(File(kTwo, 0)).tensors.size(), 2u) << "a header alone";
}

// Types of less than a byte, and one that is not known: its bytes are those of the offsets.
TEST(SafetensorsTest, OddTypes) {
  const auto one = [](const char* dtype, uint64_t elements, uint64_t bytes) {
    return Parse(File("{\"t\":{\"dtype\":\"" + std::string(dtype) + "\",\"shape\":[" +
                          std::to_string(elements) + "],\"data_offsets\":[0," + std::to_string(bytes) + "]}}",
                      bytes));
  };
  EXPECT_EQ(one("F4", 7, 4).tensors[0].bytes, 4u);
  EXPECT_EQ(one("F6_E2M3", 4, 3).tensors[0].bytes, 3u);
  EXPECT_EQ(one("Q99", 7, 100).tensors[0].bytes, 100u);
  EXPECT_THROW(one("I64", 7, 28), BadInput);
}

TEST(SafetensorsTest, HostileFiles) {
  const auto header = [](const std::string& text) { return Error(File(text, 4)); };
  EXPECT_EQ(Error("short"), "x.safetensors: holds 5 bytes, expected a safetensors file");
  EXPECT_EQ(Error(std::string(7, '\0') + "\x80" + "xx"),
            "x.safetensors: header length: is 9223372036854775808, expected at most 2 in a file of 10 bytes");
  EXPECT_EQ(
      Error(File(kTwo, 5)),
      "x.safetensors: b: ends at byte 13 of the data, which are cut off after 5, expected the whole file");
  EXPECT_EQ(header("{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}"),
            "x.safetensors: t: has 4 bytes of data, expected 8 for its shape of F32");
  EXPECT_EQ(header("{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}"),
            "x.safetensors: t: ends before it begins, expected two offsets in order");
  EXPECT_EQ(header("{\"t\":{\"dtype\":\"F32\",\"shape\":[1]}}"),
            "x.safetensors: t: lacks a part, expected dtype, shape and two data_offsets");
  EXPECT_EQ(
      header("{\"t\":{\"shape\":[-1]}}"),
      "x.safetensors: t.shape: holds what is no whole number of at least 0, expected a type, a shape and "
      "offsets");
  EXPECT_EQ(header("{\"t\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,4]}}"),
            "x.safetensors: t: is larger than 2^60 elements, expected a model's tensor");
  EXPECT_EQ(header("{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                   "\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}"),
            "x.safetensors: t: is there twice, expected each tensor once");
  EXPECT_EQ(header("{\"t\":"),
            "x.safetensors: has a header that is no JSON, from its byte 6 on, expected a "
            "safetensors file");
  EXPECT_NE(header(std::string(1 << 20, '[')).find("holds an array"), std::string::npos);
  EXPECT_NE(header("{\"t\":{\"shape\":[[1]]}}").find("holds an array"), std::string::npos);
  EXPECT_NE(header("{\"t\":{\"a\":{}}}").find("holds an object"), std::string::npos);
  EXPECT_NE(header("7").find("is a number"), std::string::npos);
  EXPECT_NE(header("{\"t\":{\"shape\":[Infinity]}}").find("no JSON"), std::string::npos);
}

TEST(SafetensorsTest, AFolderWithAnIndexOrWithout) {
  const auto tensor = [](const char* name) {
    return File("{\"" + std::string(name) + R"(":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8);
  };
  const TemporaryFolder folder("safetensors");
  EXPECT_FALSE(FindSafetensors(folder.Path("")));
  folder.Write("consolidated.safetensors", tensor("a"));
  EXPECT_EQ(FindSafetensors(folder.Path(""))->tensor_bytes, 8u);
  folder.Write(
      "model.safetensors.index.json",
      R"({"metadata":{"total_size":16},"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}})");
  auto found = FindSafetensors(folder.Path(""));
  EXPECT_EQ(found->tensor_bytes, 16u);
  EXPECT_TRUE(found->tensors.empty()) << "the index's files are not here";
  folder.Write("m-1.safetensors", tensor("a"));
  EXPECT_THROW(FindSafetensors(folder.Path("")), BadInput) << "one of two files is missing";
  folder.Write("m-2.safetensors", tensor("b"));
  found = FindSafetensors(folder.Path(""));
  EXPECT_EQ(found->tensors.size(), 2u);
  EXPECT_EQ(found->tensor_bytes, 16u);
  EXPECT_EQ(found->file_bytes, 2 * tensor("a").size());
  folder.Write("m-2.safetensors", tensor("a"));
  EXPECT_THROW(FindSafetensors(folder.Path("")), BadInput) << "a is in both";
  folder.Write("model.safetensors.index.json", R"({"weight_map":{"a":"../m-1.safetensors"}})");
  EXPECT_THROW(FindSafetensors(folder.Path("")), BadInput);
}

}  // namespace
}  // namespace ropeline
