#include "model/npy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "model/bad_input.h"

namespace ropeline {
namespace {

std::string Npy(const std::string& header, const std::string& data, char version = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += version;
  bytes += '\0';
  bytes += static_cast<char>(header.size() & 255);
  bytes += static_cast<char>(header.size() >> 8);
  if (version > 1) bytes += std::string(2, '\0');
  return bytes + header + data;
}

std::string Header(const std::string& descr, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
}

template <class T>
std::string Bytes(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

void ExpectRefused(const std::string& bytes, const std::string& part) {
  try {
    ParseNpy(bytes, "keys.npy");
    FAIL() << part;
  } catch (const BadInput& e) {
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
}

TEST(NpyTest, ReadsEveryType) {
  const std::vector<double> expected = {1, -2, 3, 4, 5, 6};
  for (const char version : {'\1', '\2', '\3'}) {
    const NpyArray array =
        ParseNpy(Npy(Header("<f4", "(2, 3)"), Bytes(std::vector<float>{1, -2, 3, 4, 5, 6}), version), "x");
    EXPECT_EQ(array.shape, (std::vector<uint64_t>{2, 3}));
    EXPECT_EQ(array.values, expected);
  }
  EXPECT_EQ(ParseNpy(Npy(Header("<f8", "(2, 3)"), Bytes(expected)), "x").values, expected);
  EXPECT_EQ(ParseNpy(Npy(Header("<i8", "(2,)"), Bytes(std::vector<int64_t>{-7, 131071})), "x").values,
            (std::vector<double>{-7, 131071}));
  EXPECT_EQ(ParseNpy(Npy(Header("<i4", "(1,)"), Bytes(std::vector<int32_t>{-7})), "x").values[0], -7);
  EXPECT_EQ(ParseNpy(Npy(Header("|i1", "(1,)"), "\xff"), "x").values[0], -1);
  EXPECT_EQ(ParseNpy(Npy(Header("|u1", "(1,)"), "\xff"), "x").values[0], 255);
  EXPECT_EQ(ParseNpy(Npy(Header(">i2", "(1,)"), std::string("\x01\x02", 2)), "x").values[0], 258);
  EXPECT_EQ(ParseNpy(Npy(Header("<f8", "()"), Bytes(std::vector<double>{2.5})), "x").values[0], 2.5);
}

TEST(NpyTest, ReadsHalves) {
  const std::vector<uint16_t> halves = {0x3c00, 0xc000, 0x3555, 0x0001, 0x7c00, 0x0000};
  const NpyArray array = ParseNpy(Npy(Header("<f2", "(6,)"), Bytes(halves)), "x");
  EXPECT_EQ(array.values[0], 1);
  EXPECT_EQ(array.values[1], -2);
  EXPECT_NEAR(array.values[2], 1.0 / 3, 1e-4);
  EXPECT_EQ(array.values[3], std::ldexp(1, -24));
  EXPECT_TRUE(std::isinf(array.values[4]));
  EXPECT_EQ(array.values[5], 0);
}

TEST(NpyTest, RefusesWhatItCannotRead) {
  const std::string data = Bytes(std::vector<float>{1, 2});
  ExpectRefused("", "keys.npy: is not a .npy file");
  ExpectRefused("PK\x03\x04 an .npz is a zip file", "is not a .npy file");
  ExpectRefused(Npy(Header("<f4", "(2,)"), data).substr(0, 20), "ends within its header");
  ExpectRefused(Npy(Header("<f4", "(2,)"), data, 9), "version: is 9");
  ExpectRefused(Npy(Header("<c8", "(1,)"), data), "descr: \"<c8\" is not read");
  ExpectRefused(Npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", data), "descr");
  ExpectRefused(Npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2,)}", data), "fortran_order");
  ExpectRefused(Npy("{'descr': '<f4', 'shape': (2,)}", data), "fortran_order: is missing");
  ExpectRefused(Npy(Header("<f4", "(-1,)"), data), "shape");
  ExpectRefused(Npy(Header("<f4", "(3,)"), data), "8 bytes of data where its shape asks for 12");
  ExpectRefused(Npy(Header("<f4", "(1,)"), data), "asks for 4");
  ExpectRefused(Npy(Header("<f4", "(100000, 100000)"), data), "above 2^28");
  EXPECT_THROW(ReadNpy("/nowhere/keys.npy"), BadInput);
}

}  // namespace
}  // namespace ropeline
