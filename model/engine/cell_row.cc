#include "model/engine/cell_row.h"

#include <algorithm>

#include "model/engine/bench_record.h"
#include "model/engine/run_words.h"

namespace ropeline {
namespace {

// "**12.34**" → "12.34"
std::string_view WithoutEmphasis(std::string_view cell) {
  constexpr std::string_view kMarks = " \t*`";
  const size_t first = cell.find_first_not_of(kMarks);
  if (first == std::string_view::npos) return {};
  return cell.substr(first, cell.find_last_not_of(kMarks) - first + 1);
}

CellRow SplitPipes(std::string_view line) {
  line = Trim(line);
  while (!line.empty() && line.front() == '>') line = Trim(line.substr(1));
  CellRow row;
  row.closed = !line.empty() && line.back() == '|';
  if (!line.empty() && line.front() == '|') line.remove_prefix(1);
  if (!line.empty() && line.back() == '|') line.remove_suffix(1);
  for (;;) {
    const size_t end = std::min(line.find('|'), line.size());
    row.cells.emplace_back(WithoutEmphasis(line.substr(0, end)));
    if (end == line.size() || row.cells.size() > kMaxColumns) return row;
    line.remove_prefix(end + 1);
  }
}

// Fields may be in quotes, and quotes within them doubled.
CellRow SplitQuoted(std::string_view line, char separator) {
  CellRow row;
  std::string cell;
  bool quoted = false;
  for (size_t i = 0; i < line.size() && row.cells.size() < kMaxColumns; ++i) {
    const char c = line[i];
    if (c == '"') {
      if (quoted && i + 1 < line.size() && line[i + 1] == '"') {
        cell += line[++i];
      } else {
        quoted = !quoted;
      }
    } else if (c == separator && !quoted) {
      row.cells.emplace_back(Trim(cell));
      cell.clear();
    } else {
      cell += c;
    }
  }
  row.cells.emplace_back(Trim(cell));
  return row;
}

}  // namespace

CellRow SplitCells(std::string_view line, char separator) {
  return separator == '|' ? SplitPipes(line) : SplitQuoted(line, separator);
}

bool IsRule(const CellRow& row) {
  return std::all_of(row.cells.begin(), row.cells.end(), [](const std::string& cell) {
    return !cell.empty() && cell.find_first_not_of("-: ") == std::string::npos;
  });
}

}  // namespace ropeline
