#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "model/machine.h"

namespace ropeline {
namespace {

// Takes host_id and date of context.ropeline, which stands before the rows, and stops the parser behind it.
class HeadReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  MachineHead head{};
  bool complete = false;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool string(string_t& value) override {
    if (path_.size() == 3 && path_[0] == "context" && path_[1] == "ropeline") {
      if (path_[2] == "host_id") head.host_id = value;
      if (path_[2] == "date") head.date = value;
    }
    return true;
  }
  bool start_object(size_t) override { return Open(); }
  bool start_array(size_t) override { return Open(); }
  bool end_object() override {
    path_.pop_back();
    complete = path_.size() == 2 && path_[0] == "context" && path_[1] == "ropeline";
    return !complete;
  }
  bool end_array() override {
    path_.pop_back();
    return true;
  }
  bool key(string_t& name) override {
    path_.back() = name;
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  static constexpr size_t kMostDepth = 64;

  bool Open() {
    path_.emplace_back();
    return path_.size() <= kMostDepth;
  }

  std::vector<std::string> path_{};  // the key in each object that is open; "" in arrays
};

}  // namespace

std::optional<MachineHead> ReadMachineHead(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  HeadReader reader;
  nlohmann::json::sax_parse(file, &reader);
  return reader.complete ? std::optional(reader.head) : std::nullopt;
}

}  // namespace ropeline
