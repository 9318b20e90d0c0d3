// The run's context: everything outside a row's name that changes its number.
#ifndef ROPELINE_BENCH_CONTEXT_H_
#define ROPELINE_BENCH_CONTEXT_H_

#include "bench/harness.h"
#include "bench/options.h"
#include "bench/results_file.h"

namespace ropeline {

// context.ropeline of results/README.md, as far as it is known before the first row.
Json MakeContext(const Topology& topology, const Options& options);

// context.ropeline.peers: name, library, version and variant of each other library in the run.
Json PeersContext(const Plan& plan);

// Adds what is known after the last row: measured caches, load, interference, oddities.
void CompleteContext(const Topology& topology, const Roofline& limits, const Json& benchmarks,
                     Json* ropeline);

}  // namespace ropeline

#endif  // ROPELINE_BENCH_CONTEXT_H_
