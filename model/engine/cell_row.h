// One line as cells: of a Markdown table, of a CSV, or separated by tabs as a browser copies a table.
#ifndef ROPELINE_MODEL_ENGINE_CELL_ROW_H_
#define ROPELINE_MODEL_ENGINE_CELL_ROW_H_

#include <string>
#include <string_view>
#include <vector>

namespace ropeline {

struct CellRow {
  std::vector<std::string> cells;  // trimmed; at most kMaxColumns + 1
  bool closed = false;             // a '|' stands behind the last cell
};

// `separator` is '|', ',', ';' or a tab. Quotes of CSV are taken off; a Markdown line may be quoted by '>'.
CellRow SplitCells(std::string_view line, char separator);

// "|---|---:|"
bool IsRule(const CellRow& row);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ENGINE_CELL_ROW_H_
