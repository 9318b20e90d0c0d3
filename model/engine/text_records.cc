#include "model/engine/text_records.h"

#include <algorithm>
#include <optional>

#include "model/bad_input.h"
#include "model/config_json.h"
#include "model/engine/cell_row.h"
#include "model/engine/json_objects.h"
#include "model/engine/read_sweep_json.h"
#include "model/engine/run_context.h"
#include "model/engine/run_words.h"
#include "model/engine/sql_insert.h"

namespace ropeline {
namespace {

constexpr size_t kManyCells = 5;  // fewer are not taken for a row of ours whose header is missing

struct Header {
  char separator = '|';
  std::vector<std::string> names;
  bool closed = false;
  bool leading = false;  // its lines begin with the separator
};

bool Leads(std::string_view line) {
  return Trim(line.substr(std::min(line.find_first_not_of("> \t"), line.size()))).rfind('|', 0) == 0;
}

std::optional<Header> HeaderIn(std::string_view line) {
  for (const char separator : {'|', '\t', ',', ';'}) {
    if (line.find(separator) == std::string_view::npos) continue;
    const CellRow row = SplitCells(line, separator);
    BenchRecord fields;
    Header header{separator, {}, row.closed, Leads(line)};
    for (const std::string& cell : row.cells) {
      header.names.push_back(FieldName(cell));
      fields.fields.emplace_back(header.names.back(), "");
    }
    if (KindOf(fields) != RecordKind::kNone) return header;
  }
  return std::nullopt;
}

// A row's fields as llama-bench's JSON has them; lists and objects in it are left out.
BenchRecord RecordOf(const nlohmann::json& object) {
  BenchRecord record;
  for (const auto& [key, value] : object.items()) {
    if (value.is_string()) record.fields.emplace_back(FieldName(key), value.get<std::string>());
    if (value.is_boolean()) record.fields.emplace_back(FieldName(key), value.get<bool>() ? "1" : "0");
    if (value.is_null()) record.fields.emplace_back(FieldName(key), "");
    if (value.is_array() && key == "samples_ts") {
      record.fields.emplace_back("samples", std::to_string(value.size()));
    }
    if (value.is_number()) record.fields.emplace_back(FieldName(key), value.dump());
  }
  return record;
}

class Finder {
 public:
  Finder(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  TextRecords Run() {
    const std::vector<std::string_view> objects = JsonObjectsIn(text_);
    auto object = objects.begin();
    for (size_t at = 0; at < text_.size();) {
      ++line_;
      const size_t end = std::min(text_.find('\n', at), text_.size());
      bool in_object = false;
      // Objects that begin in this line; the lines of one that is ours are no table.
      for (; object != objects.end() && Offset(*object) < end; ++object) {
        if (Offset(*object) >= at && TakeObject(*object)) object_end_ = Offset(*object) + object->size();
      }
      in_object = at < object_end_;
      if (!in_object) ReadLine(text_.substr(at, end - at), end + 1);
      at = end + 1;
    }
    const size_t last = objects.empty() ? 0 : Offset(objects.back()) + objects.back().size();
    const std::string_view rest = text_.substr(last);
    if (rest.find('{') != std::string_view::npos && LooksLikeARow(rest)) ++found_.damaged_objects;
    return std::move(found_);
  }

 private:
  static bool LooksLikeARow(std::string_view json) {
    for (const char* key : {"\"model_type\"", "\"n_prompt\"", "\"n_kv\""}) {
      if (json.find(key) != std::string_view::npos) return true;
    }
    return false;
  }
  size_t Offset(std::string_view part) const { return static_cast<size_t>(part.data() - text_.data()); }

  bool TakeObject(std::string_view object) {
    nlohmann::json json;
    try {
      json = ParseConfigJson(object, file_, "");
    } catch (const BadInput&) {
      if (LooksLikeARow(object)) ++found_.damaged_objects;
      return false;
    }
    if (IsSweepJson(JsonView(json, {file_, ""}))) {
      found_.sweeps.push_back(std::move(json));
      return true;
    }
    BenchRecord record = RecordOf(json);
    if (KindOf(record) == RecordKind::kNone) return false;
    Add(std::move(record));
    return true;
  }

  void ReadLine(std::string_view line, size_t next_at) {
    if (const std::optional<BenchRecord> row = SqlInsert(line)) {
      if (KindOf(*row) != RecordKind::kNone) Add(*row);
      return;
    }
    if (std::optional<Header> header = HeaderIn(line)) {
      header_ = std::move(header);
      ++tables_;
      context_.BeginTable();
      return;
    }
    if (line.find('|') != std::string_view::npos && Leads(line)) return ReadTableLine(line, next_at);
    if (header_ && header_->separator != '|' && line.find(header_->separator) != std::string_view::npos) {
      return AddRow(SplitCells(line, header_->separator));
    }
    if (header_ && header_->separator == '|' && !header_->leading &&
        line.find('|') != std::string_view::npos) {
      return ReadTableLine(line, next_at);
    }
    // A Markdown table may go on behind lines of a log; the others end here.
    if (header_ && header_->separator != '|') header_.reset();
    if (ReadBuild(Trim(line))) return;
    context_.Read(line);
  }

  void ReadTableLine(std::string_view line, size_t next_at) {
    const CellRow row = SplitCells(line, '|');
    if (IsRule(row)) return;
    const std::string_view rest = text_.substr(std::min(next_at, text_.size()));
    const std::string_view next = rest.substr(0, rest.find('\n'));
    if (next.find('|') != std::string_view::npos && IsRule(SplitCells(next, '|'))) {
      header_.reset();  // of another table
      return;
    }
    if (header_ && header_->separator == '|') return AddRow(row);
    const auto numbers = std::count_if(row.cells.begin(), row.cells.end(), [](const std::string& cell) {
      return !cell.empty() && cell.find_first_not_of("0123456789.,") == std::string::npos;
    });
    if (numbers >= static_cast<std::ptrdiff_t>(kManyCells)) ++found_.rows_without_header;
  }

  void AddRow(const CellRow& row) {
    if (IsRule(row)) return;
    const Header& header = *header_;
    BenchRecord record;
    record.cut = row.cells.size() != header.names.size() || (header.closed && !row.closed);
    for (size_t i = 0; i < std::min(row.cells.size(), header.names.size()); ++i) {
      record.fields.emplace_back(header.names[i], row.cells[i]);
    }
    for (size_t i = row.cells.size(); i < header.names.size(); ++i)
      record.fields.emplace_back(header.names[i], "");
    record.SetDefault("table", std::to_string(tables_));
    // llama-bench prints these columns only where they are not its defaults, and always the four.
    const bool whole = record.Has("model_type") && record.Has("model_size") && record.Has("model_n_params") &&
                       record.Has("backends");
    if (whole && header.separator == '|') {
      record.SetDefault("type_k", "f16");
      record.SetDefault("type_v", "f16");
      record.SetDefault("n_ubatch", "512");
    }
    Add(std::move(record));
  }

  void Add(BenchRecord record) {
    if (found_.records.size() == kMaxRecords) {
      throw BadInput({file_, "line " + std::to_string(line_)},
                     "has more than " + std::to_string(kMaxRecords) + " rows", "the output of one benchmark");
    }
    record.line = line_;
    context_.Describe(&record);
    found_.records.push_back(std::move(record));
  }

  // "build: 8cf427ff (5163)", which llama-bench prints below its table.
  bool ReadBuild(std::string_view line) {
    constexpr std::string_view kBuild = "build: ";
    if (line.rfind(kBuild, 0) != 0) return false;
    const std::string_view rest = line.substr(kBuild.size());
    const size_t open = rest.find('(');
    const size_t close = rest.find(')', std::min(open, rest.size()));
    for (; built_ < found_.records.size(); ++built_) {
      found_.records[built_].SetDefault("build_commit", Trim(rest.substr(0, open)));
      if (close != std::string_view::npos)
        found_.records[built_].SetDefault("build_number", Trim(rest.substr(open + 1, close - open - 1)));
    }
    return true;
  }

  std::string_view text_;
  const std::string& file_;
  TextRecords found_{};
  RunContext context_{};
  std::optional<Header> header_{};
  size_t line_ = 0;
  size_t tables_ = 0;
  size_t built_ = 0;       // records that a build line has named
  size_t object_end_ = 0;  // of the last JSON object that is ours
};

}  // namespace

TextRecords FindRecords(std::string_view text, const std::string& file) { return Finder(text, file).Run(); }

}  // namespace ropeline
