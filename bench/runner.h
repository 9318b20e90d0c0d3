// Runs rows through Google Benchmark, in interleaved rounds: every row once, then every row again.
#ifndef ROPELINE_BENCH_RUNNER_H_
#define ROPELINE_BENCH_RUNNER_H_

#include <vector>

#include "bench/harness.h"
#include "bench/options.h"
#include "bench/results_file.h"

namespace ropeline {

// Registers, runs and stores what `results` does not have yet. Shows progress with the time left on a
// terminal, one line per family and round otherwise. False where Ctrl-C stopped it; every finished row is in
// the file.
bool RunRows(const std::vector<Row>& rows, const Options& options, ResultsFile* results);

// The rows of the chosen families whose name the filter of Google Benchmark's flags lets through; stream and
// peak rows stay whatever the families, since they are the limits.
std::vector<Row> ChooseRows(std::vector<Row> rows, const Options& options);

}  // namespace ropeline

#endif  // ROPELINE_BENCH_RUNNER_H_
