// Command line of bench_all: Google Benchmark's flags and our own.
#ifndef ROPELINE_BENCH_OPTIONS_H_
#define ROPELINE_BENCH_OPTIONS_H_

#include <stdexcept>
#include <string>
#include <vector>

#include "bench/topology.h"

namespace ropeline {

// One line `what: what is wrong, what was expected`; main prints it and exits with 2.
class BadUsage : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What the family step executes, as typed; bench/step/step_choice.h makes sense of it.
struct StepOptions {
  std::string model{};  // "": no step rows
  std::vector<std::string> contexts{}, kv{};
  std::string weights{};
};

struct Options {
  bool quick = false;
  bool resume = false;
  bool list = false;                  // --benchmark_list_tests
  std::vector<std::string> families;  // empty: all
  std::vector<std::string> targets;   // best first
  std::vector<int> threads;           // ascending
  std::string out;                    // folder of bench.json
  std::string ggml;                   // folder of a llama.cpp build; "" none
  StepOptions step;
  int rounds = 0;                           // passes over all rows: repetitions, interleaved
  double min_seconds = 0;                   // of each row
  std::string filter;                       // --benchmark_filter; "" lets all through
  std::string command;                      // as typed, program name without its folder
  std::vector<std::string> benchmark_args;  // for benchmark::Initialize, without the program's name
};

// Every family bench_all has, in the order they run.
const std::vector<std::string>& Families();

// Reads argv. Throws BadUsage. Prints and exits with 0 for --help and --version.
Options ParseOptions(int argc, char** argv, const Topology& topology);

// results/<machine> of the checkout this program was built from, where that still exists and can be written
// to; otherwise $XDG_DATA_HOME/ropeline/results/<machine>, or ~/.local/share for an unset XDG_DATA_HOME.
std::string DefaultOutFolder(const Topology& topology);

}  // namespace ropeline

#endif  // ROPELINE_BENCH_OPTIONS_H_
