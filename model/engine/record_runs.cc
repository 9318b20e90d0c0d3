#include "model/engine/record_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "model/bad_input.h"
#include "model/engine/loose_number.h"
#include "model/engine/row_check.h"
#include "model/engine/run_header.h"
#include "model/engine/run_words.h"
#include "model/engine/test_label.h"

namespace ropeline {
namespace {

// Fields of the row, not of its run.
constexpr std::string_view kRowFields[] = {
    "test",     "avg_ts", "stddev_ts", "avg_ns",    "stddev_ns",   "n_prompt",       "n_gen",   "n_depth",
    "samples",  "pp",     "tg",        "pl",        "n_kv",        "t_pp",           "t_tg",    "speed_pp",
    "speed_tg", "t",      "speed",     "test_time", "rss_hwm_mib", "vram_delta_mib", "rss hwm", "vram delta"};

// Rounding of the printed seconds (3 digits) and speeds (2 digits).
constexpr double kSecondsRounding = 0.0006, kSpeedRounding = 0.006, kDisagree = 0.03;

constexpr double kFactor = 0.4;  // of a logarithm

bool IsRowField(std::string_view name) {
  return std::find(std::begin(kRowFields), std::end(kRowFields), name) != std::end(kRowFields);
}

// Everything that two rows of one run share, as text.
std::string SettingsKey(const BenchRecord& record, RecordKind kind) {
  std::map<std::string_view, std::string_view> settings;
  for (const auto& [name, value] : record.fields) {
    const bool by_table = name != "table" || kind != RecordKind::kLlamaBench;
    if (!IsRowField(name) && by_table) settings.emplace(name, value);
  }
  std::string key = std::to_string(static_cast<int>(kind));
  for (const auto& [name, value] : settings) key.append("\x1f").append(name).append("\x1e").append(value);
  return key;
}

using RowIdentity = std::tuple<RunPhase, uint64_t, uint64_t, uint64_t, uint64_t>;
RowIdentity IdentityOf(const RunRow& row) {
  return {row.phase, row.n_kv, row.n_prompt, row.n_generated, row.n_sequences};
}

struct Group {
  const BenchRecord* first;
  EngineRun run;
  std::vector<RunRow> rows{};
  std::vector<std::pair<std::string, size_t>> left_out{};  // reason, line
  std::set<RowIdentity> seen{};
};

// Why time and speed of a row cannot both be right; "" where they agree as far as their digits go.
std::string TimeAgainstSpeed(double tokens, std::optional<double> seconds, double speed) {
  if (!seconds || !(*seconds > 0) || !(speed > 0)) return "";
  const double allowed = kDisagree + kSecondsRounding / *seconds + kSpeedRounding / speed;
  return std::abs(*seconds * speed / tokens - 1) > allowed ? "seconds and speed disagree" : "";
}

// llama.cpp writes "tg128 @ d4096", ik_llama.cpp "tg128@pp4096".
std::string EngineOfLabel(std::string_view label) {
  const size_t at = label.find('@');
  if (at == std::string_view::npos) return "";
  return label.find("pp", at) != std::string_view::npos ? "ik_llama.cpp" : "llama.cpp";
}

class Grouper {
 public:
  Grouper(const std::string& file, bool decimal_comma) : file_(file), decimal_comma_(decimal_comma) {}

  void Add(const BenchRecord& record) {
    kind_ = KindOf(record);
    if (record.cut) return LeaveOut(record, "cut short: fewer or more cells than the header has");
    if (kind_ == RecordKind::kLlamaBench) {
      AddLlamaBench(record);
    } else {
      AddPhases(record);
    }
  }

  std::vector<EngineRun> Runs() {
    JoinThreads();
    NameOptions();
    std::vector<EngineRun> runs;
    for (Group& group : groups_) {
      RowCheck check(&group.run);
      for (const auto& [reason, line] : group.left_out) check.LeaveOut(reason, line);
      for (const RunRow& row : group.rows) check.Add(row);
      check.Finish();
      runs.push_back(std::move(group.run));
    }
    return runs;
  }

 private:
  // The group of the record's settings, or a new one where it has that row already.
  Group& GroupFor(const BenchRecord& record, const RunRow* row) {
    const std::string key = SettingsKey(record, kind_);
    const auto known = current_.find(key);
    if (known != current_.end()) {
      Group& group = groups_[known->second];
      if (row == nullptr || group.seen.insert(IdentityOf(*row)).second) return group;
    }
    current_[key] = groups_.size();
    groups_.push_back({&record, RunHeader(record, kind_, decimal_comma_, file_)});
    if (row != nullptr) groups_.back().seen.insert(IdentityOf(*row));
    return groups_.back();
  }

  void LeaveOut(const BenchRecord& record, const std::string& reason) {
    GroupFor(record, nullptr).left_out.emplace_back(reason, record.line);
  }

  void AddRow(const BenchRecord& record, RunRow row) {
    row.line = record.line;
    Group& group = GroupFor(record, &row);
    if (group.run.engine.empty()) group.run.engine = EngineOfLabel(record.Get("test"));
    const std::string off_cpu = OffCpu(record, row.phase);
    if (off_cpu.empty()) {
      group.rows.push_back(row);
    } else {
      group.left_out.emplace_back(off_cpu, record.line);
    }
  }

  std::optional<double> Number(const BenchRecord& record, std::string_view name) const {
    return LooseNumber(record.Get(name), decimal_comma_);
  }

  void AddLlamaBench(const BenchRecord& record) {
    const std::string_view label = record.Get("test");
    std::optional<RunRow> row;
    if (!label.empty()) {
      row = ParseTestLabel(label);
      if (!row) return LeaveOut(record, "the test is none of pp, tg, pp+tg: " + Quoted(label));
    } else {
      for (const char* name : {"n_prompt", "n_gen", "n_depth"}) {
        const std::string_view written = Trim(record.Get(name));
        if (!written.empty() && !LooseCount(written)) {
          return LeaveOut(record, fmt::format("{} is no count: {}", name, Quoted(written)));
        }
      }
      const auto count = [&](std::string_view name) { return LooseCount(record.Get(name)).value_or(0); };
      row = RowOfCounts(count("n_prompt"), count("n_gen"), count("n_depth"));
    }
    const std::string_view written = record.Get("avg_ts");
    const std::optional<double> speed = Number(record, "avg_ts");
    if (!speed) return LeaveOut(record, NoNumber(written));
    row->tok_per_s = *speed;
    // Means of a speed and of a time differ by the spread of the samples, not by a factor.
    const std::optional<double> ns = record.Has("avg_ns") ? Number(record, "avg_ns") : std::nullopt;
    const double tokens = static_cast<double>(row->n_prompt + row->n_generated);
    if (ns && *ns > 0 && tokens > 0 && std::abs(std::log(tokens * 1e9 / *ns / *speed)) > kFactor) {
      return LeaveOut(record, "avg_ts and avg_ns disagree");
    }
    row->stddev_tok_per_s =
        record.Has("stddev_ts") ? Number(record, "stddev_ts") : SpreadOf(written, decimal_comma_);
    row->repetitions = LooseCount(record.Get("samples"));
    AddRow(record, *row);
  }

  static std::string NoNumber(std::string_view written) {
    if (Trim(written).empty()) return "no speed";
    const std::string why = CommaIn(written) == Comma::kEither ? " can be read in two ways" : " is no number";
    return "the speed " + Quoted(written) + why;
  }

  // sweep-bench and batched-bench: a prompt and a generation per row.
  void AddPhases(const BenchRecord& record) {
    const uint64_t n_prompt = LooseCount(record.Get("pp")).value_or(0);
    const uint64_t n_generated = LooseCount(record.Get("tg")).value_or(0);
    const uint64_t n_sequences =
        kind_ == RecordKind::kSweepBench ? 1 : LooseCount(record.Get("pl")).value_or(0);
    const std::optional<uint64_t> n_kv = LooseCount(record.Get("n_kv"));
    if (!n_kv) return LeaveOut(record, "N_KV is no count: " + Quoted(record.Get("n_kv")));
    RunRow row;
    row.phase = RunPhase::kPrefill;
    row.n_prompt = n_prompt;
    // sweep-bench generates at n_kv, cuts the cache back to n_kv and puts the prompt there. batched-bench's
    // N_KV is all that the cache holds in the end: prompts at 0, generation behind them.
    row.n_kv = kind_ == RecordKind::kSweepBench ? *n_kv : 0;
    row.n_sequences = SharedPrompt(record, n_prompt, n_generated, n_sequences, *n_kv) ? 1 : n_sequences;
    AddPhase(record, row, n_prompt * row.n_sequences, "t_pp", "speed_pp");
    row.phase = RunPhase::kDecode;
    row.n_prompt = 0;
    row.n_generated = n_generated;
    if (kind_ == RecordKind::kBatchedBench) row.n_kv = n_prompt;
    row.n_sequences = record.Get("is_tg_separate") == "1" ? 1 : n_sequences;
    AddPhase(record, row, n_generated * n_sequences, "t_tg", "speed_tg");
  }

  void AddPhase(const BenchRecord& record, RunRow row, uint64_t n_tokens, std::string_view time_field,
                std::string_view speed_field) {
    std::optional<double> speed = Number(record, speed_field);
    if (n_tokens == 0 && !(speed && std::isfinite(*speed) && *speed > 0)) return;  // -ntg 0: not asked for
    const std::optional<double> seconds = Number(record, time_field);
    const auto tokens = static_cast<double>(n_tokens);
    if (record.Get(speed_field).empty() && seconds && *seconds > 0) speed = tokens / *seconds;
    if (!speed) return LeaveOut(record, NoNumber(record.Get(speed_field)));
    const std::string disagree = n_tokens == 0 ? "" : TimeAgainstSpeed(tokens, seconds, *speed);
    if (!disagree.empty()) return LeaveOut(record, disagree);
    row.tok_per_s = *speed;
    AddRow(record, row);
  }

  // batched-bench -pps: one prompt for all sequences, and its speed is that of one.
  bool SharedPrompt(const BenchRecord& record, uint64_t n_prompt, uint64_t n_generated, uint64_t n_sequences,
                    uint64_t n_kv) const {
    if (n_sequences < 2) return false;
    if (record.Has("is_pp_shared")) return record.Get("is_pp_shared") == "1";
    if (n_kv == n_prompt + n_sequences * n_generated) return true;
    const std::optional<double> seconds = Number(record, "t_pp"), speed = Number(record, "speed_pp");
    return seconds && speed && *seconds * *speed < 1.5 * static_cast<double>(n_prompt);
  }

  // ik_llama.cpp writes the threads of the phase that was timed: -tb makes two of one run.
  void JoinThreads() {
    std::map<std::string, std::vector<size_t>> alike;
    for (size_t i = 0; i < groups_.size(); ++i) {
      BenchRecord other = *groups_[i].first;
      if (KindOf(other) != RecordKind::kLlamaBench || groups_[i].rows.empty()) continue;
      std::erase_if(other.fields, [](const auto& field) { return field.first == "n_threads"; });
      alike[SettingsKey(other, RecordKind::kLlamaBench)].push_back(i);
    }
    const auto only = [&](size_t i, RunPhase phase) {
      return std::all_of(groups_[i].rows.begin(), groups_[i].rows.end(),
                         [&](const RunRow& row) { return row.phase == phase; });
    };
    std::set<size_t> joined;
    for (const auto& [key, members] : alike) {
      if (members.size() != 2) continue;
      size_t prefill = members[0], decode = members[1];
      if (!only(prefill, RunPhase::kPrefill)) std::swap(prefill, decode);
      if (!only(prefill, RunPhase::kPrefill) || !only(decode, RunPhase::kDecode)) continue;
      Group& from = groups_[prefill];
      Group& to = groups_[decode];
      to.run.threads_batch = from.run.threads;
      to.rows.insert(to.rows.begin(), from.rows.begin(), from.rows.end());
      to.left_out.insert(to.left_out.end(), from.left_out.begin(), from.left_out.end());
      joined.insert(prefill);
    }
    for (auto i = joined.rbegin(); i != joined.rend(); ++i) {
      groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(*i));
    }
  }

  // Settings that no member of EngineRun holds, where they tell runs of the file apart.
  void NameOptions() {
    std::map<std::string_view, std::set<std::string_view>> values;
    for (const Group& group : groups_) {
      for (const auto& [name, value] : group.first->fields) {
        if (!IsRowField(name) && !IsHeaderField(name)) values[name].insert(value);
      }
    }
    for (Group& group : groups_) {
      for (const auto& [name, value] : group.first->fields) {
        const auto found = values.find(name);
        if (found == values.end() || found->second.size() < 2) continue;
        group.run.options +=
            (group.run.options.empty() ? "" : ", ") + OneLine(name, 40) + " " + OneLine(value, 60);
      }
    }
  }

  const std::string& file_;
  const bool decimal_comma_;
  RecordKind kind_ = RecordKind::kNone;
  std::vector<Group> groups_{};
  std::map<std::string, size_t> current_{};  // by settings
};

// The first number that can only have a decimal comma; "" where there is none.
std::string_view DecimalComma(const std::vector<BenchRecord>& records) {
  for (const BenchRecord& record : records) {
    for (const std::string_view name : {"avg_ts", "speed_pp", "speed_tg", "t_pp", "t_tg"}) {
      if (CommaIn(record.Get(name)) == Comma::kDecimal) return record.Get(name);
    }
  }
  return {};
}

}  // namespace

std::vector<EngineRun> RunsOf(const std::vector<BenchRecord>& records, const std::string& file) {
  const std::string_view comma = DecimalComma(records);
  Grouper grouper(file, !comma.empty());
  for (const BenchRecord& record : records) grouper.Add(record);
  std::vector<EngineRun> runs = grouper.Runs();
  if (!comma.empty()) {
    for (EngineRun& run : runs)
      run.warnings.push_back("numbers such as " + Quoted(comma) + " are read with a decimal comma");
  }
  return runs;
}

}  // namespace ropeline
