#include "bench/runner.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <regex>
#include <set>
#include <sstream>

namespace ropeline {

namespace {

volatile std::sig_atomic_t interrupted = 0;

// The first asks the run to stop after its row; a second one stops it at once (the file is whole at any
// time).
void OnSignal(int) {
  if (interrupted != 0) _exit(130);
  interrupted = 1;
}

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string Duration(double seconds) {
  const int whole = static_cast<int>(seconds + 0.5);
  return whole < 60 ? fmt::format("{} s", whole) : fmt::format("{} min {:02} s", whole / 60, whole % 60);
}

class Progress {
 public:
  Progress(size_t total, int rounds)
      : total_(total), rounds_(rounds), terminal_(isatty(STDERR_FILENO) != 0) {}

  void Finished(const Row& row, int round) {
    ++finished_;
    if (terminal_) {
      const double left =
          SecondsSince(start_) / static_cast<double>(finished_) * static_cast<double>(total_ - finished_);
      fmt::print(stderr, "\r\033[K{}/{}  about {} left  {}", finished_, total_, Duration(left),
                 row.name.Text());
      std::fflush(stderr);
      return;
    }
    if (row.Family() != family_ || round != round_) EndFamily();
    if (in_family_ == 0) family_start_ = last_;
    family_ = row.Family();
    round_ = round;
    last_ = Clock::now();
    ++in_family_;
  }

  void End() {
    if (terminal_) {
      fmt::print(stderr, "\r\033[K");
    } else {
      EndFamily();
    }
    std::fflush(stderr);
  }

 private:
  void EndFamily() {
    if (in_family_ == 0) return;
    fmt::print(stderr, "round {}/{}  {:<12} {:>4} rows  {:>6.1f} s\n", round_ + 1, rounds_, family_,
               in_family_, std::chrono::duration<double>(last_ - family_start_).count());
    in_family_ = 0;
  }

  const size_t total_;
  const int rounds_;
  const bool terminal_;
  const Clock::time_point start_ = Clock::now();
  size_t finished_ = 0;
  std::string family_;
  int round_ = 0;
  size_t in_family_ = 0;
  Clock::time_point last_ = start_;
  Clock::time_point family_start_ = start_;
};

int RoundsOf(const Row& row, const Options& options) {
  return row.most_rounds > 0 ? std::min(row.most_rounds, options.rounds) : options.rounds;
}

// A run as Google Benchmark's own reporter writes it, so that the keys are its keys, whatever its version.
Json AsJson(const benchmark::BenchmarkReporter::Run& run,
            const benchmark::BenchmarkReporter::Context& context) {
  std::ostringstream text;
  benchmark::JSONReporter reporter;
  reporter.SetOutputStream(&text);
  reporter.SetErrorStream(&text);
  reporter.ReportContext(context);
  reporter.ReportRuns({run});
  reporter.Finalize();
  const Json document = Json::parse(text.str());
  return document["benchmarks"].at(0);
}

// What Google Benchmark knows of the machine, less what names it.
Json ContextJson(const benchmark::BenchmarkReporter::Context& context) {
  std::ostringstream text;
  benchmark::JSONReporter reporter;
  reporter.SetOutputStream(&text);
  reporter.ReportContext(context);
  Json json = Json::parse(text.str() + "]}")["context"];
  json.erase("host_name");
  json["executable"] = "bench_all";
  return json;
}

class Reporter : public benchmark::BenchmarkReporter {
 public:
  Reporter(const std::vector<Row>& rows, const Options& options, Progress* progress, ResultsFile* results)
      : options_(options), progress_(progress), results_(results) {
    for (const Row& row : rows) rows_.emplace(row.name.Text(), &row);
  }

  void SetRound(int round) { round_ = round; }
  // Of one thread, as an earlier round found them; 0 where there was none.
  int64_t IterationsOf(const std::string& name) const {
    const auto it = iterations_.find(name);
    return it == iterations_.end() ? 0 : it->second;
  }

  bool ReportContext(const Context& context) override {
    context_ = &context;
    Json merged = ContextJson(context);
    merged["ropeline"] = results_->Context()["ropeline"];
    results_->SetContext(std::move(merged));
    return true;
  }

  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration) continue;
      const Row& ours = *rows_.at(run.run_name.function_name);
      const std::string name = ours.name.Text();
      Json row = AsJson(run, *context_);
      row["name"] = row["run_name"] = name;
      row["threads"] = ours.threads;
      row["repetitions"] = RoundsOf(ours, options_);
      row["repetition_index"] = round_;
      iterations_[name] = run.iterations / run.threads;
      results_->AddRow(std::move(row), round_);
      progress_->Finished(ours, round_);
    }
    // Between rows is the one place to stop at: the file is whole.
    if (interrupted != 0) {
      progress_->End();
      results_->Finish(false);
      fmt::print(stderr, "interrupted: {} rows kept in {}; bench_all --resume goes on\n",
                 results_->Benchmarks().size(), results_->Path());
      std::fflush(nullptr);
      _exit(130);
    }
  }

 private:
  const Options& options_;
  Progress* progress_;
  ResultsFile* results_;
  std::map<std::string, const Row*> rows_;
  std::map<std::string, int64_t> iterations_;
  const Context* context_ = nullptr;
  int round_ = 0;
};

// Later rounds take the first round's number of iterations, which saves the search for it.
void Register(const Row& row, const Options& options, int64_t iterations) {
  auto* registered = benchmark::RegisterBenchmark(row.name.Text().c_str(),
                                                  [&row](benchmark::State& state) { row.body(state, row); });
  registered->Threads(row.TimedThreads())->UseRealTime();
  if (iterations > 0) {
    registered->Iterations(iterations);
  } else if (options.min_seconds > 0) {
    registered->MinTime(options.min_seconds);
  }
}

}  // namespace

std::vector<Row> ChooseRows(std::vector<Row> rows, const Options& options) {
  const std::string& pattern = options.filter;
  const bool negative = !pattern.empty() && pattern[0] == '-';
  std::regex filter;
  try {
    filter = std::regex(negative ? pattern.substr(1) : pattern == "all" ? "" : pattern, std::regex::extended);
  } catch (const std::regex_error& error) {
    throw BadUsage(fmt::format("--benchmark_filter: '{}' is no regular expression ({}), expected a POSIX one",
                               pattern, error.what()));
  }
  const auto wanted = [&](const Row& row) {
    const std::string family = row.Family();
    const auto& chosen = options.families;
    if (family == "stream" || family == "peak") return true;
    if (!chosen.empty() && std::find(chosen.begin(), chosen.end(), family) == chosen.end()) return false;
    return std::regex_search(row.name.Text(), filter) != negative;
  };
  // What a peer's row stands beside runs with it: a comparison holds only inside one run.
  std::set<std::string> beside;
  for (const Row& row : rows) {
    if (!row.name.peer.empty() && wanted(row)) beside.insert(row.name.Subject());
  }
  rows.erase(std::remove_if(rows.begin(), rows.end(),
                            [&](const Row& row) {
                              return !wanted(row) &&
                                     !(row.name.peer.empty() && beside.count(row.name.Subject()) != 0);
                            }),
             rows.end());
  const bool any = std::any_of(rows.begin(), rows.end(), [&](const Row& row) {
    return pattern.empty() || std::regex_search(row.name.Text(), filter) != negative;
  });
  if (!any) {
    throw BadUsage(fmt::format(
        "--benchmark_filter: '{}' matches no row, expected part of a name that --benchmark_list_tests shows",
        pattern));
  }
  return rows;
}

bool RunRows(const std::vector<Row>& rows, const Options& options, ResultsFile* results) {
  struct sigaction action {};
  action.sa_handler = OnSignal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);

  size_t missing = 0;
  for (int round = 0; round < options.rounds; ++round) {
    for (const Row& row : rows) {
      if (round < RoundsOf(row, options) && !results->Has(row.name.Text(), round)) ++missing;
    }
  }
  Progress progress(missing, options.rounds);
  Reporter reporter(rows, options, &progress, results);
  for (int round = 0; round < options.rounds; ++round) {
    benchmark::ClearRegisteredBenchmarks();
    size_t registered = 0;
    for (const Row& row : rows) {
      if (round >= RoundsOf(row, options) || results->Has(row.name.Text(), round)) continue;
      Register(row, options, reporter.IterationsOf(row.name.Text()));
      ++registered;
    }
    if (registered == 0) continue;
    reporter.SetRound(round);
    benchmark::RunSpecifiedBenchmarks(&reporter, nullptr, ".");
  }
  progress.End();
  return interrupted == 0;
}

}  // namespace ropeline
