#include "model/safetensors.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "model/bad_input.h"
#include "model/bounded_reader.h"

namespace ropeline {
namespace {

// Of the header's text. A real one has some 100 bytes a tensor, and at most 10^5 tensors.
constexpr uint64_t kMostHeaderBytes = uint64_t{64} << 20;
constexpr uint64_t kMostElements = uint64_t{1} << 60;

// enum Dtype of the format, bits of an element. Nothing where unknown.
std::optional<uint64_t> DtypeBits(std::string_view dtype) {
  struct Row {
    std::string_view name;
    uint64_t bits;
  };
  static constexpr std::array<Row, 23> kRows = {
      {{"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
       {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
       {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
       {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64},        {"C128", 128}}};
  for (const Row& row : kRows) {
    if (row.name == dtype) return row.bits;
  }
  return std::nullopt;
}

// Takes the header's text piece by piece, so that no tree of it is built: an object of tensors, each with
// "dtype", "shape" and "data_offsets", and "__metadata__" with texts.
class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderHandler(std::string path) : path_(std::move(path)) {}

  std::vector<SafetensorsTensor> tensors;
  uint64_t data_end = 0;    // of the last tensor
  std::string last_tensor;  // whose data end there

  bool start_object(size_t) override {
    if (in_array_ || depth_ > 1) Fail("holds an object", "a type, a shape and offsets");
    if (++depth_ == 2) Begin();
    return true;
  }
  bool end_object() override {
    if (depth_-- == 2 && name_ != kMetadata) End();
    return true;
  }
  bool key(string_t& text) override {
    if (depth_ == 2) {
      field_ = text;
      return true;
    }
    name_ = text;
    field_.clear();
    if (!names_.insert(name_).second) Fail("is there twice", "each tensor once");
    return true;
  }
  bool start_array(size_t) override {
    if (depth_ != 2 || in_array_ || name_ == kMetadata)
      Fail("holds an array", "an object, or a list of numbers in one");
    in_array_ = true;
    numbers_.clear();
    return true;
  }
  bool end_array() override {
    in_array_ = false;
    if (field_ == "shape") shape_ = numbers_;
    if (field_ == "data_offsets") offsets_ = numbers_;
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (!in_array_) Fail("is a number", "an object");
    numbers_.push_back(value);
    return true;
  }
  bool number_integer(number_integer_t) override { return NoCount(); }
  bool number_float(number_float_t, const string_t&) override { return NoCount(); }
  bool string(string_t& text) override {
    if (depth_ != 2 || in_array_) Fail("is a string", "an object of numbers");
    if (field_ == "dtype") dtype_ = text;
    return true;
  }
  bool boolean(bool) override { return NoCount(); }
  bool null() override { return NoCount(); }
  bool binary(binary_t&) override { return false; }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    name_.clear();
    Fail("has a header that is no JSON, from its byte " + std::to_string(position) + " on",
         "a safetensors file");
  }

 private:
  static constexpr std::string_view kMetadata = "__metadata__";

  [[noreturn]] void Fail(std::string_view wrong, std::string_view expected) const {
    std::string key = OneLine(name_, 200);
    if (!field_.empty()) key += "." + OneLine(field_, 60);
    throw BadInput({path_, key}, wrong, expected);
  }
  bool NoCount() const { Fail("holds what is no whole number of at least 0", "a type, a shape and offsets"); }

  void Begin() {
    dtype_.clear();
    shape_.reset();
    offsets_.reset();
  }

  void End() {
    field_.clear();
    if (dtype_.empty() || !shape_ || !offsets_ || offsets_->size() != 2) {
      Fail("lacks a part", "dtype, shape and two data_offsets");
    }
    SafetensorsTensor tensor{.name = name_, .dtype = dtype_, .shape = *shape_};
    for (const uint64_t dim : *shape_) {
      if (dim != 0 && tensor.elements > kMostElements / dim)
        Fail("is larger than 2^60 elements", "a model's tensor");
      tensor.elements *= dim;
    }
    const uint64_t begin = (*offsets_)[0], end = (*offsets_)[1];
    if (begin > end) Fail("ends before it begins", "two offsets in order");
    tensor.bytes = end - begin;
    const auto bits = DtypeBits(dtype_);
    if (bits && tensor.bytes != (tensor.elements * *bits + 7) / 8) {
      Fail("has " + std::to_string(tensor.bytes) + " bytes of data",
           std::to_string((tensor.elements * *bits + 7) / 8) + " for its shape of " + dtype_);
    }
    if (tensor.bytes > kMostElements) Fail("is larger than 2^60 bytes", "a model's tensor");
    if (end > data_end) {
      data_end = end;
      last_tensor = name_;
    }
    tensors.push_back(std::move(tensor));
  }

  const std::string path_;
  int depth_ = 0;
  bool in_array_ = false;
  std::string name_, field_, dtype_;
  std::vector<uint64_t> numbers_;
  std::optional<std::vector<uint64_t>> shape_, offsets_;
  std::set<std::string> names_;
};

}  // namespace

SafetensorsFile ParseSafetensors(std::istream& in, uint64_t size, const std::string& path) {
  constexpr const char* kExpected = "a safetensors file";
  if (size < 8) throw BadInput({path, ""}, "holds " + std::to_string(size) + " bytes", kExpected);
  BoundedReader reader(in, size, kMostHeaderBytes + 8);
  const uint64_t header = reader.ReadUnsigned(8, {path, "header length"});
  if (header > kMostHeaderBytes || header > reader.Left()) {
    throw BadInput({path, "header length"}, "is " + std::to_string(header),
                   "at most " + std::to_string(std::min(kMostHeaderBytes, reader.Left())) + " in a file of " +
                       std::to_string(size) + " bytes");
  }
  const std::string text = reader.ReadText(header, {path, "header"});
  HeaderHandler handler(path);
  nlohmann::json::sax_parse(text, &handler);
  const uint64_t data = size - 8 - header;
  if (data > 0 && handler.data_end > data) {
    throw BadInput({path, handler.last_tensor},
                   "ends at byte " + std::to_string(handler.data_end) +
                       " of the data, which are cut off after " + std::to_string(data),
                   "the whole file");
  }
  return {std::move(handler.tensors), size};
}

}  // namespace ropeline
