#include "model/gguf_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <limits>
#include <sstream>

#include "model/fake_gguf.h"

namespace ropeline {
namespace {

GgufFile Parse(const std::string& bytes) {
  std::istringstream in(bytes);
  return ParseGguf(in, bytes.size(), "x.gguf");
}

std::string Error(const std::string& bytes) {
  try {
    Parse(bytes);
  } catch (const BadInput& e) {
    return e.what();
  }
  return "no BadInput";
}

// Every kind of value, and three tensors: 256·2 q4_K (2·144 bytes), 7 f32, 32·3·2 q8_0 (6·34).
FakeGguf Sample(bool big_endian, uint32_t version) {
  FakeGguf gguf(big_endian, version);
  gguf.Text("general.architecture", "llama").U32("u32", 0x01020304).I32("i32", -5).U16("u16", 515);
  gguf.U64("u64", uint64_t{1} << 40).F32("f32", 1e-5f).F64("f64", -2.5).Bool("bool", true);
  gguf.U32s("per_layer", {8, 0, 8}).Bools("pattern", {true, false}).Texts("tokenizer.ggml.tokens", 3000);
  gguf.U32s("long", std::vector<uint32_t>(5000, 7));
  gguf.Tensor("a.weight", {256, 2}, 12, 288).F32Tensor("b.bias", {7}).Tensor("c.weight", {32, 3, 2}, 8, 204);
  return gguf;
}

TEST(GgufFileTest, ReadsEveryKindOfValueInBothByteOrdersAndVersions) {
  for (const bool big_endian : {false, true}) {
    for (const uint32_t version : {2u, 3u}) {
      const std::string bytes = Sample(big_endian, version).File();
      const GgufFile file = Parse(bytes);
      EXPECT_EQ(file.version, version);
      EXPECT_EQ(file.big_endian, big_endian);
      EXPECT_EQ(file.file_bytes, bytes.size());
      EXPECT_TRUE(file.data_present);
      const GgufMetadata& keys = file.metadata;
      EXPECT_EQ(keys.size(), 12u);
      EXPECT_EQ(keys.Text("general.architecture"), "llama");
      EXPECT_EQ(keys.Count("u32"), 0x01020304u);
      EXPECT_EQ(keys.FindNumber("i32"), -5);
      EXPECT_EQ(keys.Count("u16"), 515u);
      EXPECT_EQ(keys.Count("u64"), uint64_t{1} << 40);
      EXPECT_EQ(keys.FindNumber("f32"), static_cast<double>(1e-5f));
      EXPECT_EQ(keys.FindNumber("f64"), -2.5);
      EXPECT_EQ(keys.FindBool("bool"), true);
      EXPECT_EQ(keys.FindCounts("per_layer", 3), (std::vector<uint64_t>{8, 0, 8}));
      EXPECT_EQ(keys.FindCounts("u16", 2), (std::vector<uint64_t>{515, 515}));
      EXPECT_EQ(keys.FindCounts("pattern", 2), (std::vector<uint64_t>{1, 0}));
      EXPECT_EQ(keys.FindLength("tokenizer.ggml.tokens"), 3000u);
      EXPECT_EQ(keys.FindLength("long"), 5000u);
      EXPECT_EQ(keys.FindCount("absent"), std::nullopt);
    }
  }
}

TEST(GgufFileTest, TensorsHaveExactBytes) {
  const GgufFile file = Parse(Sample(false, 3).File());
  ASSERT_EQ(file.tensors.size(), 3u);
  EXPECT_EQ(file.tensors[0].name, "a.weight");
  EXPECT_STREQ(file.tensors[0].type->name, "q4_K");
  EXPECT_EQ(file.tensors[0].bytes, 288u);
  EXPECT_EQ(file.tensors[1].bytes, 28u);
  EXPECT_EQ(file.tensors[1].offset, 288u);
  EXPECT_EQ(file.tensors[2].Elements(), 192u);
  EXPECT_EQ(file.tensors[2].bytes, 204u);
  EXPECT_EQ(file.TensorBytes(), 288u + 28 + 204);
}

// Bytes per block are ggml's, by type number; a row of 256 elements of each.
TEST(GgufFileTest, KnowsEveryTypeOfGgml) {
  const std::vector<std::pair<uint32_t, uint64_t>> bytes_of_256 = {
      {0, 1024}, {1, 512},  {2, 144},  {3, 160},  {6, 176},  {7, 192},  {8, 272},   {9, 288},   {10, 84},
      {11, 110}, {12, 144}, {13, 176}, {14, 210}, {15, 292}, {16, 66},  {17, 74},   {18, 98},   {19, 50},
      {20, 144}, {21, 110}, {22, 82},  {23, 136}, {24, 256}, {25, 512}, {26, 1024}, {27, 2048}, {28, 2048},
      {29, 56},  {30, 512}, {31, 144}, {32, 144}, {33, 144}, {34, 54},  {35, 66},   {36, 144},  {37, 144},
      {38, 144}, {39, 136}, {40, 144}, {41, 36},  {42, 72}};
  for (const auto& [type, bytes] : bytes_of_256) {
    const GgufFile file = Parse(FakeGguf().Tensor("t", {256}, type, bytes).File());
    EXPECT_EQ(file.tensors[0].bytes, bytes) << type;
  }
  for (const uint32_t type : {4u, 5u, 43u, 4000000000u}) {
    EXPECT_EQ(Error(FakeGguf().Tensor("t", {256}, type, 0).File()),
              "x.gguf: t: is of type " + std::to_string(type) + ", expected a type that ggml has");
  }
}

TEST(GgufFileTest, EveryTruncationIsOneLineThatNamesWhatIsCutOff) {
  const std::string bytes = Sample(false, 3).File();
  const size_t header = Sample(false, 3).Header().size();
  for (size_t n = 0; n < header; n += n < 400 ? 1 : 97) {
    const std::string error = Error(bytes.substr(0, n));
    EXPECT_EQ(error.rfind("x.gguf: ", 0), 0u) << n << ": " << error;
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }
  EXPECT_EQ(Error(bytes.substr(0, 3)), "x.gguf: holds 3 bytes, expected a GGUF file");
  EXPECT_EQ(
      Error(bytes.substr(0, bytes.size() - 40)),
      "x.gguf: c.weight: takes 204 bytes from byte 320 of the tensor data on, which is cut off after 504, "
      "expected the whole file");
}

TEST(GgufFileTest, AHeaderAloneIsRead) {
  const GgufFile file = Parse(Sample(false, 3).Header());
  EXPECT_FALSE(file.data_present);
  EXPECT_EQ(file.TensorBytes(), 520u);
}

TEST(GgufFileTest, HostileCountsAndLengths) {
  const auto says = [](const FakeGguf& gguf, const std::string& text) {
    const std::string error = Error(gguf.File());
    EXPECT_NE(error.find(text), std::string::npos) << error;
  };
  EXPECT_EQ(Error("GGML" + FakeGguf().File().substr(4)),
            "x.gguf: magic: is \"GGML\", expected \"GGUF\" as a GGUF file's first bytes");
  says(FakeGguf(false, 1), "version: is 1, expected 2 or 3");
  says(FakeGguf(true, 77), "version: is 77, expected 2 or 3");
  says(FakeGguf().ClaimTensors(uint64_t{1} << 40), "tensor_count: is 1099511627776, expected at most");
  says(FakeGguf().ClaimKeys(~uint64_t{0}), "metadata_kv_count: is 18446744073709551615, expected at most");
  // A string of 2^63 bytes, as a value, in an array, as a name.
  const std::string length = std::string(7, '\0') + '\x80';
  FakeGguf value;
  value.Key("general.name", 8);
  EXPECT_NE(Error(value.Header() + length).find("x.gguf: general.name: is cut off"), std::string::npos);
  FakeGguf in_array;
  in_array.Array("tokenizer.ggml.tokens", 8, 1);
  EXPECT_NE(Error(in_array.Header() + length).find("x.gguf: tokenizer.ggml.tokens: is cut off"),
            std::string::npos);
  FakeGguf name;
  name.ClaimKeys(1);
  EXPECT_NE(Error(name.Header() + length + std::string(64, ' '))
                .find("key 1 of 1: has a name of 9223372036854775808 bytes"),
            std::string::npos);
  says(FakeGguf().Array("a", 4, uint64_t{1} << 62), "a: is an array of 4611686018427387904 elements");
  says(FakeGguf().Array("a", 9, 2).U32("b", 1), "a: is an array of arrays");
  says(FakeGguf().Key("a", 13).Text("", "padding"), "a: has value type 13");
  says(FakeGguf().U32("a", 1).U32("a", 1), "a: is there twice");
  says(FakeGguf().U32("general.alignment", 0), "general.alignment: is 0, expected a power of two");
  says(FakeGguf().U32("general.alignment", 48), "general.alignment: is 48");
  says(FakeGguf().Text("general.alignment", "32"), "general.alignment: is string \"32\"");
}

TEST(GgufFileTest, HostileTensors) {
  const auto says = [](const FakeGguf& gguf, const std::string& text) {
    EXPECT_EQ(Error(gguf.File()), "x.gguf: t: " + text);
  };
  says(FakeGguf().F32Tensor("t", {1}).F32Tensor("t", {1}), "is there twice, expected each tensor once");
  says(FakeGguf().TensorAt("t", {1, 1, 1, 1, 1}, 0, 0), "has 5 dimensions, expected at most 4");
  says(FakeGguf().TensorAt("t", {32, 0}, 0, 0),
       "has dimension 1 of 0, expected at least 1 and a tensor of less than 2^60 elements");
  says(FakeGguf().TensorAt("t", {uint64_t{1} << 32, uint64_t{1} << 32}, 0, 0),
       "has dimension 1 of 4294967296, expected at least 1 and a tensor of less than 2^60 elements");
  says(FakeGguf().TensorAt("t", {100}, 12, 0),
       "has rows of 100 elements of type q4_K, expected a multiple of 256");
  says(FakeGguf().TensorAt("t", {32}, 0, 33), "has offset 33, expected a multiple of the alignment 32");
  says(FakeGguf().F32Tensor("a", {8}).TensorAt("t", {32}, 0, ~uint64_t{31}),
       "takes 128 bytes from byte 18446744073709551584 of the tensor data on, which is cut off after 32, "
       "expected the whole file");
}

TEST(GgufFileTest, ReadsShardsFromAnyOfThem) {
  const TemporaryFolder folder("gguf_shards");
  const auto shard = [](uint16_t number, const char* tensor) {
    FakeGguf gguf;
    if (number == 0) gguf.Text("general.architecture", "llama");
    gguf.U16("split.no", number).U16("split.count", 3).I32("split.tensors.count", 3);
    gguf.F32Tensor(tensor, {8});
    return gguf;
  };
  const std::string first = folder.Write("m-00001-of-00003.gguf", shard(0, "a").File());
  const std::string second = folder.Write("m-00002-of-00003.gguf", shard(1, "b").File());
  try {
    ReadGgufFile(first);
    FAIL() << "no BadInput";
  } catch (const BadInput& e) {
    EXPECT_EQ(std::string(e.what()),
              folder.Path("m-00003-of-00003.gguf") +
                  ": cannot be opened: No such file or directory, expected a GGUF file");
  }
  folder.Write("m-00003-of-00003.gguf", shard(2, "c").File());
  for (const std::string& path : {first, second}) {
    const GgufFile file = ReadGgufFile(path);
    ASSERT_EQ(file.shards.size(), 3u);
    EXPECT_EQ(file.shards[2].path, folder.Path("m-00003-of-00003.gguf"));
    EXPECT_EQ(file.tensors[2].shard, 2u);
    EXPECT_EQ(file.metadata.Text("general.architecture"), "llama");
    ASSERT_EQ(file.tensors.size(), 3u);
    EXPECT_EQ(file.tensors[2].name, "c");
    EXPECT_EQ(file.TensorBytes(), 96u);
  }
  folder.Write("m-00003-of-00003.gguf", shard(2, "a").File());
  EXPECT_THROW(ReadGgufFile(first), BadInput);  // tensor a is there twice
  folder.Write("m-00003-of-00003.gguf", shard(1, "c").File());
  EXPECT_THROW(ReadGgufFile(first), BadInput);  // split.no is 1
  EXPECT_THROW(ReadGgufFile(folder.Write("m.gguf", shard(0, "a").File())), BadInput);
}

TEST(GgufFileTest, FilesThatAreNotThere) {
  const TemporaryFolder folder("gguf_absent");
  EXPECT_THROW(ReadGgufFile(""), BadInput);
  EXPECT_THROW(ReadGgufFile(folder.Path("")), BadInput);
  EXPECT_THROW(ReadGgufFile(folder.Path("absent.gguf")), BadInput);
  EXPECT_TRUE(LooksLikeGguf("absent.gguf"));
  EXPECT_FALSE(LooksLikeGguf(folder.Path("")));
  EXPECT_TRUE(LooksLikeGguf(folder.Write("blob", FakeGguf().File())));
  EXPECT_FALSE(LooksLikeGguf(folder.Write("text", "GGU")));
}

uint64_t MostResidentBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

// Sparse, so that it takes no space; reading it all would take minutes, and far more than this memory.
TEST(GgufFileTest, AFileOf40GigabytesIsReadByItsHeader) {
  const TemporaryFolder folder("gguf_sparse");
  FakeGguf gguf;
  gguf.Text("general.architecture", "llama").Texts("tokenizer.ggml.tokens", 128000);
  const uint64_t tensor_bytes = uint64_t{10} << 30;
  for (const char* name : {"a", "b", "c", "d"}) gguf.Tensor(name, {1 << 15, 1 << 16, 5}, 24, tensor_bytes);
  const std::string header = gguf.Header();
  const std::string path = folder.Write("big.gguf", header);
  std::error_code error;
  std::filesystem::resize_file(path, (header.size() + 31) / 32 * 32 + gguf.data_bytes(), error);
  if (error) GTEST_SKIP() << "no sparse file of 40 GB here: " << error.message();
  const uint64_t before = MostResidentBytes();
  const GgufFile file = ReadGgufFile(path);
  EXPECT_EQ(file.TensorBytes(), 4 * tensor_bytes);
  EXPECT_GT(file.file_bytes, 4 * tensor_bytes);
  EXPECT_LT(MostResidentBytes() - before, uint64_t{100} << 20);
}

// A sparse file whose zeros are read as endless strings: the limit on a header's bytes ends it.
TEST(GgufFileTest, AHeaderThatNeverEndsIsRefused) {
  const TemporaryFolder folder("gguf_endless");
  FakeGguf gguf;
  gguf.Array("tokenizer.ggml.tokens", 8, uint64_t{1} << 32);
  const std::string path = folder.Write("endless.gguf", gguf.Header());
  std::error_code error;
  std::filesystem::resize_file(path, uint64_t{40} << 30, error);
  if (error) GTEST_SKIP() << "no sparse file of 40 GB here: " << error.message();
  try {
    ReadGgufFile(path);
    FAIL() << "no BadInput";
  } catch (const BadInput& e) {
    EXPECT_EQ(std::string(e.what()), path +
                                         ": tokenizer.ggml.tokens: lies beyond the first 64 MiB, expected a "
                                         "header smaller than that");
  }
}

}  // namespace
}  // namespace ropeline
