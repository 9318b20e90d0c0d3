// What a person wants to know at the end of a run.
#ifndef ROPELINE_BENCH_SUMMARY_H_
#define ROPELINE_BENCH_SUMMARY_H_

#include "bench/results_file.h"

namespace ropeline {

// Machine limits, measured caches, each encoding's speed and distance from its limit, and what is odd.
void PrintSummary(const ResultsFile& results);

}  // namespace ropeline

#endif  // ROPELINE_BENCH_SUMMARY_H_
