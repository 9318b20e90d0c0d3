#include "model/cli/table.h"

#include <algorithm>
#include <stdexcept>

namespace ropeline {

size_t Width(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

void Table::Add(std::vector<std::string> cells) {
  if (cells.size() != columns_.size()) throw std::logic_error("a table row has the wrong number of cells");
  for (std::string& cell : cells) {
    for (size_t at = cell.find('|'); at != std::string::npos; at = cell.find('|', at + 2))
      cell.insert(at, "\\");
  }
  rows_.push_back(std::move(cells));
}

std::string Table::Text() const {
  std::vector<size_t> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    size_t width = std::max<size_t>(3, Width(columns_[c].header));
    for (const auto& row : rows_) width = std::max(width, Width(row[c]));
    widths.push_back(width);
  }
  std::string text;
  const auto add_cell = [&](const std::string& cell, size_t c) {
    const std::string padding(widths[c] - Width(cell), ' ');
    text += "| ";
    text += columns_[c].align == Align::kLeft ? cell + padding : padding + cell;
    text += ' ';
  };
  for (size_t c = 0; c < columns_.size(); ++c) add_cell(columns_[c].header, c);
  text += "|\n";
  for (size_t c = 0; c < columns_.size(); ++c) {
    const bool right = columns_[c].align == Align::kRight;
    text += "|" + std::string(widths[c] + (right ? 1 : 2), '-') + (right ? ":" : "");
  }
  text += "|\n";
  for (const auto& row : rows_) {
    for (size_t c = 0; c < row.size(); ++c) add_cell(row[c], c);
    text += "|\n";
  }
  return text;
}

}  // namespace ropeline
