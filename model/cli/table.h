// Aligned Markdown tables: they read well on a terminal and render as tables elsewhere.
#ifndef ROPELINE_MODEL_CLI_TABLE_H_
#define ROPELINE_MODEL_CLI_TABLE_H_

#include <string>
#include <string_view>
#include <vector>

namespace ropeline {

// Code points of UTF-8 text; "µs" is two wide.
size_t Width(std::string_view text);

enum class Align { kLeft, kRight };

struct Column {
  std::string header;
  Align align = Align::kRight;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // One cell per column; a '|' in a cell is escaped.
  void Add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  std::string Text() const;  // with a final newline

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace ropeline

#endif  // ROPELINE_MODEL_CLI_TABLE_H_
