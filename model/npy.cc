#include "model/npy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

#include "model/bad_input.h"

namespace ropeline {
namespace {

constexpr uint64_t kMostValues = uint64_t{1} << 28;

struct Element {
  char kind = 'f';  // 'f', 'i', 'u'
  size_t bytes = 4;
  bool big_endian = false;
};

[[noreturn]] void Refuse(const std::string& file, const std::string& key, const std::string& wrong) {
  throw BadInput({file, key}, wrong, "an array of numbers as numpy.save writes it");
}

// What follows 'key': in the header, which is a Python dict of literals.
std::string_view AfterKey(std::string_view header, std::string_view key, const std::string& file) {
  for (const char quote : {'\'', '"'}) {
    const std::string quoted = quote + std::string(key) + quote;
    const size_t at = header.find(quoted);
    if (at == std::string_view::npos) continue;
    const size_t colon = header.find(':', at + quoted.size());
    if (colon == std::string_view::npos) break;
    const size_t value = header.find_first_not_of(' ', colon + 1);
    if (value != std::string_view::npos) return header.substr(value);
  }
  Refuse(file, std::string(key), "is missing in the header");
}

Element ParseElement(std::string_view text, const std::string& file) {
  // '<f4'
  if (text.size() < 5 || (text[0] != '\'' && text[0] != '"') || text[4] != text[0]) {
    Refuse(file, "descr", "is no plain type");
  }
  const char order = text[1], kind = text[2], digit = text[3];
  const bool known =
      (order == '<' || order == '>' || order == '|' || order == '=') &&
      ((kind == 'f' && (digit == '2' || digit == '4' || digit == '8')) ||
       ((kind == 'i' || kind == 'u') && (digit == '1' || digit == '2' || digit == '4' || digit == '8')));
  if (!known)
    throw BadInput({file, "descr"}, Quoted(text.substr(1, 3)) + " is not read",
                   "f2, f4, f8, i1 to i8, u1 to u8");
  return {kind, static_cast<size_t>(digit - '0'), order == '>'};
}

std::vector<uint64_t> ParseShape(std::string_view text, const std::string& file) {
  const size_t close = text.find(')');
  if (text.empty() || text[0] != '(' || close == std::string_view::npos) Refuse(file, "shape", "is no tuple");
  std::vector<uint64_t> shape;
  const char* at = text.data() + 1;
  const char* const end = text.data() + close;
  while (at < end) {
    if (*at == ' ' || *at == ',') {
      ++at;
      continue;
    }
    uint64_t count = 0;
    const auto [next, error] = std::from_chars(at, end, count);
    if (error != std::errc()) Refuse(file, "shape", "holds something else than counts");
    shape.push_back(count);
    at = next;
  }
  return shape;
}

double HalfToDouble(uint16_t half) {
  const int sign = (half & 0x8000) != 0 ? -1 : 1, exponent = (half >> 10) & 31, fraction = half & 1023;
  if (exponent == 31) return fraction != 0 ? std::nan("") : sign * static_cast<double>(INFINITY);
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

template <class T>
T As(const std::array<char, 8>& bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

double Decode(const char* data, const Element& element) {
  std::array<char, 8> bytes{};
  std::copy_n(data, element.bytes, bytes.begin());
  if (element.big_endian)
    std::reverse(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(element.bytes));
  if (element.kind == 'f') {
    return element.bytes == 2   ? HalfToDouble(As<uint16_t>(bytes))
           : element.bytes == 4 ? As<float>(bytes)
                                : As<double>(bytes);
  }
  const auto bits = As<uint64_t>(bytes);
  if (element.kind == 'u') return static_cast<double>(bits);
  const size_t unused = 64 - 8 * element.bytes;  // the sign is the topmost bit of those there are
  return static_cast<double>(static_cast<int64_t>(bits << unused) >> unused);
}

}  // namespace

NpyArray ParseNpy(std::string_view bytes, const std::string& file) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  if (bytes.substr(0, 6) != kMagic || bytes.size() < 12) Refuse(file, "", "is not a .npy file");
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(bytes[i])); };
  const bool v1 = byte(6) == 1;
  if (byte(6) < 1 || byte(6) > 3) Refuse(file, "version", "is " + std::to_string(byte(6)));
  const size_t start = v1 ? 10 : 12;
  const size_t length = byte(8) | byte(9) << 8 | (v1 ? 0 : byte(10) << 16 | byte(11) << 24);
  if (length > bytes.size() - start) Refuse(file, "", "ends within its header");
  const std::string_view header = bytes.substr(start, length), data = bytes.substr(start + length);
  const Element element = ParseElement(AfterKey(header, "descr", file), file);
  if (!AfterKey(header, "fortran_order", file).starts_with("False")) {
    throw BadInput({file, "fortran_order"}, "is not False", "C order: numpy.ascontiguousarray before saving");
  }
  NpyArray array;
  array.shape = ParseShape(AfterKey(header, "shape", file), file);
  uint64_t count = 1;
  for (const uint64_t size : array.shape) {
    if (size > kMostValues || (count *= size) > kMostValues) Refuse(file, "shape", "is above 2^28 values");
  }
  if (data.size() != count * element.bytes) {
    Refuse(file, "",
           "has " + std::to_string(data.size()) + " bytes of data where its shape asks for " +
               std::to_string(count * element.bytes));
  }
  array.values.resize(count);
  for (uint64_t i = 0; i < count; ++i) array.values[i] = Decode(data.data() + i * element.bytes, element);
  return array;
}

NpyArray ReadNpy(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) Refuse(path, "", "cannot be read");
  const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  return ParseNpy(bytes, path);
}

}  // namespace ropeline
