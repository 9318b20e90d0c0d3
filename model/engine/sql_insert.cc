#include "model/engine/sql_insert.h"

#include <algorithm>
#include <vector>

#include "model/engine/run_words.h"

namespace ropeline {
namespace {

constexpr std::string_view kInsert = "insert into ", kValues = "values";

struct List {
  std::vector<std::string> items;
  size_t end = 0;  // behind the closing parenthesis
  bool closed = false;
};

// Items between parentheses, of which `text` begins with the first; strings in single quotes, doubled within.
List ParseList(std::string_view text) {
  List list;
  std::string item;
  bool quoted = false;
  for (size_t i = 1; i < text.size() && list.items.size() <= kMaxColumns; ++i) {
    const char c = text[i];
    if (c == '\'' && quoted && i + 1 < text.size() && text[i + 1] == '\'') {
      item += text[++i];
    } else if (c == '\'') {
      quoted = !quoted;
    } else if (!quoted && (c == ',' || c == ')')) {
      list.items.emplace_back(Trim(item));
      item.clear();
      if (c == ')') {
        list.end = i + 1;
        list.closed = true;
        return list;
      }
    } else {
      item += c;
    }
  }
  list.items.emplace_back(Trim(item));
  list.end = text.size();
  return list;
}

}  // namespace

std::optional<BenchRecord> SqlInsert(std::string_view line) {
  line = Trim(line);
  if (LowerCase(line.substr(0, kInsert.size())) != kInsert) return std::nullopt;
  const size_t open = line.find('(');
  if (open == std::string_view::npos) return std::nullopt;
  const List columns = ParseList(line.substr(open));
  std::string_view rest = Trim(line.substr(open + columns.end));
  List values;
  if (LowerCase(rest.substr(0, kValues.size())) == kValues) {
    rest = Trim(rest.substr(kValues.size()));
    if (!rest.empty() && rest[0] == '(') values = ParseList(rest);
  }
  BenchRecord record;
  record.cut = !values.closed || values.items.size() != columns.items.size();
  values.items.resize(columns.items.size());
  for (size_t i = 0; i < columns.items.size(); ++i) {
    record.fields.emplace_back(FieldName(columns.items[i]), values.items[i]);
  }
  return record;
}

}  // namespace ropeline
