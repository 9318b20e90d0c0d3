#include "model/engine/run_context.h"

#include <algorithm>
#include <vector>

#include "model/engine/run_words.h"

namespace ropeline {
namespace {

constexpr size_t kMaxTitle = 200, kMaxCommand = 4000;

// A flag of the benchmarks and the field it sets. Without a value: a switch.
struct Flag {
  std::string_view names;  // between blanks
  std::string_view field;
  bool may_be_switch;
};

constexpr Flag kFlags[] = {
    {" -m --model ", "model_filename", false},
    {" -t --threads ", "n_threads", false},
    {" -tb --threads-batch ", "n_threads_batch", false},
    {" -ctk --cache-type-k ", "type_k", false},
    {" -ctv --cache-type-v ", "type_v", false},
    {" -fa --flash-attn ", "flash_attn", true},
    {" -mla --mla-use ", "mla_attn", false},
    {" -ub --ubatch-size ", "n_ubatch", false},
    {" -ngl --gpu-layers --n-gpu-layers ", "n_gpu_layers", false},
    {" -dev --device ", "devices", false},
    {" -pps ", "is_pp_shared", true},
    {" -tgs ", "is_tg_separate", true},
};

constexpr std::string_view kTools[] = {"llama-bench", "sweep-bench", "batched-bench"};

// Keys of the loader's log, of older and newer versions.
struct LogKey {
  std::string_view key, field;
};
constexpr LogKey kLogKeys[] = {
    {"model ftype", "ftype"},     {"file type", "ftype"},      {"model params", "model_n_params"},
    {"model size", "model_size"}, {"file size", "model_size"}, {"general.name", "model_name"},
};

constexpr LogKey kGpuLogs[] = {
    {"ggml_cuda_init: found", "CUDA"}, {"ggml_vulkan: found", "Vulkan"}, {"ggml_metal_init:", "Metal"}};

std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t at = 0; (at = text.find_first_not_of(" \t", at)) != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(" \t", at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

std::string_view Unquoted(std::string_view word) {
  while (!word.empty() && (word.front() == '"' || word.front() == '\'')) word.remove_prefix(1);
  while (!word.empty() && (word.back() == '"' || word.back() == '\'' || word.back() == '`'))
    word.remove_suffix(1);
  return word;
}

const Flag* FindFlag(std::string_view word) {
  if (word.size() < 2 || word[0] != '-') return nullptr;
  const std::string between = " " + std::string(word) + " ";
  const auto found = std::find_if(std::begin(kFlags), std::end(kFlags), [&](const Flag& flag) {
    return flag.names.find(between) != std::string_view::npos;
  });
  return found == std::end(kFlags) ? nullptr : found;
}

// "## main@6bb76b14", "**PR**", "<summary>PR</summary>"; "" where the line is no heading.
std::string_view Heading(std::string_view line) {
  constexpr std::string_view kSummary = "<summary>";
  if (line.size() > 1 && line[0] == '#')
    return Trim(line.substr(std::min(line.find_first_not_of('#'), line.size())));
  if (line.size() > 4 && line.substr(0, 2) == "**" && line.substr(line.size() - 2) == "**") {
    return Trim(line.substr(2, line.size() - 4));
  }
  const size_t summary = line.find(kSummary);
  if (summary == std::string_view::npos) return {};
  const std::string_view rest = line.substr(summary + kSummary.size());
  return Trim(rest.substr(0, rest.find('<')));
}

void Set(std::string_view name, std::string_view value, BenchRecord* record) {
  const auto found = std::find_if(record->fields.begin(), record->fields.end(),
                                  [&](const auto& field) { return field.first == name; });
  if (found != record->fields.end()) {
    found->second = value;
  } else {
    record->fields.emplace_back(name, value);
  }
}

}  // namespace

void RunContext::ReadCommand(std::string_view flags) {
  known_.fields.clear();
  preamble_.fields.clear();
  const std::vector<std::string_view> words = Words(flags);
  for (size_t i = 0; i < words.size(); ++i) {
    std::string_view word = words[i];
    std::string_view value;
    if (const size_t equals = word.find('='); equals != std::string_view::npos) {
      value = Unquoted(word.substr(equals + 1));
      word = word.substr(0, equals);
    }
    const Flag* flag = FindFlag(word);
    if (flag == nullptr) continue;
    if (value.empty() && i + 1 < words.size() && words[i + 1][0] != '-') value = Unquoted(words[++i]);
    if (value.empty() && flag->may_be_switch) value = "1";
    // A list becomes a column of the table, and a shell's variable tells nothing.
    const bool plain = !value.empty() && value.find_first_of(",$") == std::string_view::npos;
    if (plain) Set(flag->field, value, &known_);
  }
  Set("command_path", command_path_, &known_);
  // The default of every version.
  known_.SetDefault("type_k", "f16");
  known_.SetDefault("type_v", "f16");
}

// "main: n_kv_max = 8192, n_batch = 2048, n_ubatch = 512, flash_attn = 1, n_gpu_layers = 0, n_threads = 8, …"
void RunContext::ReadPreamble(std::string_view line) {
  std::string_view rest = line.substr(line.find("n_kv_max"));
  preamble_.fields.clear();
  preamble_used_ = false;
  while (!rest.empty() && preamble_.fields.size() < kMaxColumns / 2) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view setting = rest.substr(0, comma);
    const size_t equals = setting.find('=');
    if (equals != std::string_view::npos)
      Set(Trim(setting.substr(0, equals)), Trim(setting.substr(equals + 1)), &preamble_);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
}

void RunContext::ReadLog(std::string_view line) {
  const std::string lower = LowerCase(line);
  for (const LogKey& gpu : kGpuLogs) {
    if (lower.rfind(gpu.key, 0) == 0) Set("backends", gpu.field, &known_);
  }
  const bool cache =
      lower.find("kv self size") != std::string::npos || lower.find("kv buffer") != std::string::npos;
  for (const auto& [mark, field] : {std::pair("k (", "type_k"), std::pair("v (", "type_v")}) {
    const size_t at = cache ? lower.find(mark) : std::string::npos;
    const size_t end = at == std::string::npos ? at : lower.find(')', at);
    if (end != std::string::npos) Set(field, std::string_view(lower).substr(at + 3, end - at - 3), &known_);
  }
  if (lower.rfind("llm_load_print_meta:", 0) != 0 && lower.rfind("print_info:", 0) != 0) return;
  const size_t equals = line.find('=');
  if (equals == std::string_view::npos) return;
  const size_t colon = line.find(':');
  if (colon > equals) return;
  const std::string key = LowerCase(Trim(line.substr(colon + 1, equals - colon - 1)));
  std::string_view value = Trim(line.substr(equals + 1));
  for (const LogKey& known : kLogKeys) {
    if (key != known.key) continue;
    if (known.field == "model_size") value = Trim(value.substr(0, value.find('(')));  // "(4.64 BPW)"
    Set(known.field, value, &known_);
  }
}

// "./llama-sweep-bench -m model.gguf -t 8 \\", whose lines may go on.
bool RunContext::ReadCommandLine(std::string_view line) {
  if (!command_.empty()) {
    command_.back() = ' ';  // was a backslash
    command_ += line;
  } else {
    size_t tool_end = 0;
    for (const std::string_view tool : kTools) {
      const size_t at = line.find(tool);
      if (at != std::string_view::npos) tool_end = at + tool.size();
    }
    const std::string_view flags = line.substr(tool_end);
    const bool is_command = tool_end != 0 && !flags.empty() &&
                            (flags.find(" -") != std::string_view::npos || flags.back() == '\\');
    if (!is_command) return false;
    command_ = flags;
    command_path_ = line.substr(0, tool_end);
  }
  if (command_.back() == '\\' && command_.size() < kMaxCommand) return true;
  ReadCommand(command_);
  command_.clear();
  return true;
}

void RunContext::Read(std::string_view line) {
  line = Trim(line);
  if (ReadCommandLine(line)) return;
  if (const std::string_view heading = Heading(line); !heading.empty()) {
    title_ = heading.substr(0, kMaxTitle);
    return;
  }
  if (line.find("n_kv_max = ") != std::string_view::npos) return ReadPreamble(line);
  ReadLog(line);
}

void RunContext::BeginTable() {
  if (preamble_used_) preamble_.fields.clear();
  preamble_used_ = true;
}

void RunContext::Describe(BenchRecord* record) const {
  for (const auto& [name, value] : preamble_.fields) record->SetDefault(name, value);
  for (const auto& [name, value] : known_.fields) record->SetDefault(name, value);
  if (!title_.empty()) record->SetDefault("title", title_);
}

}  // namespace ropeline
