// bench_all: measures this machine and the kernels of every encoding, and writes
// results/<machine>/bench.json.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <optional>
#include <system_error>
#include <vector>

#include "bench/context.h"
#include "bench/harness.h"
#include "bench/options.h"
#include "bench/peer/ggml_library.h"
#include "bench/results_file.h"
#include "bench/runner.h"
#include "bench/step/step_choice.h"
#include "bench/summary.h"
#include "kernels/targets.h"

namespace ropeline {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// Peers are asked for by --ggml or by name: other runs have no other libraries in them.
std::shared_ptr<const GgmlLibrary> OpenPeer(const Options& options) {
  if (options.ggml.empty()) return nullptr;
  const std::string wrong = CheckGgmlInChild(options.ggml);
  if (!wrong.empty()) throw BadUsage(wrong);
  return GgmlLibrary::Open(options.ggml);
}

Plan MakePlan(const Topology& topology, const Options& options) {
  Plan plan;
  plan.ggml = OpenPeer(options);
  plan.peers = plan.ggml != nullptr ||
               std::find(options.families.begin(), options.families.end(), "peer") != options.families.end();
  plan.topology = topology;
  plan.threads = options.threads;
  plan.targets = options.targets;
  plan.quick = options.quick;
  // At least four times the largest cache that is believable, at least 512 MiB (quick: 256), at most a
  // quarter of the memory.
  const uint64_t cache = topology.LargestBelievedCache().value_or(32 * kMiB);
  uint64_t largest = std::max<uint64_t>((plan.quick ? 256 : 512) * kMiB, 4 * cache);
  uint64_t memory = topology.memory_bytes;
  if (topology.cgroup.memory_bytes) memory = std::min(memory, *topology.cgroup.memory_bytes);
  if (memory != 0) largest = std::min(largest, memory / 4);
  plan.largest_stream_bytes = largest / 4096 * 4096;
  plan.cold_bytes = std::min<uint64_t>(std::max<uint64_t>(256 * kMiB, 4 * cache), plan.largest_stream_bytes);
  return plan;
}

int Main(int argc, char** argv) {
  UseBestTarget();
  const Topology topology = DetectTopology();
  const Options options = ParseOptions(argc, argv, topology);
  const std::vector<StepChoice> steps = ChooseSteps(options, FreeMemoryBytes(topology));
  const Plan plan = MakePlan(topology, options);
  std::vector<Row> rows;
  AddMachineRows(plan, &rows);
  std::vector<SkippedRow> skipped;
  AddPlacementRows(plan, &rows, &skipped);
  AddAngleTableRows(plan, &rows);
  AddInputForms(plan, &rows);
  AddScoreForms(plan, &rows);
  AddRotationForms(plan, &rows);
  AddScheduleRows(plan, &rows);
  AddAttentionRows(plan, &rows, &skipped);
  AddRetrievalRows(plan, &rows);
  AddKvCacheRows(plan, &rows, &skipped);
  AddWeightRows(plan, &rows);
  AddLinearRows(plan, &rows);
  for (const StepChoice& step : steps) AddStepRows(plan, step, &rows);
  if (plan.peers) AddPeerRows(plan, &rows, &skipped);
  rows = ChooseRows(std::move(rows), options);
  if (options.list) {
    for (const Row& row : rows) fmt::print("{}\n", row.name.Text());
    return 0;
  }

  std::vector<char*> args = {argv[0]};
  std::vector<std::string> words = options.benchmark_args;
  for (std::string& word : words) args.push_back(word.data());
  int count = static_cast<int>(args.size());
  benchmark::Initialize(&count, args.data());
  if (benchmark::ReportUnrecognizedArguments(count, args.data())) return 2;

  ResultsFile results(options.out, options.resume);
  results.SetRows(rows);
  Json context;
  context["ropeline"] = MakeContext(topology, options);
  if (plan.peers) context["ropeline"]["peers"] = PeersContext(plan);
  for (const SkippedRow& row : skipped) {
    const auto& families = options.families;
    if (!families.empty() && std::find(families.begin(), families.end(), row.Family()) == families.end())
      continue;
    context["ropeline"]["skipped"].push_back({{"row", row.name.Text()}, {"reason", row.reason}});
  }
  results.SetContext(context);
  if (options.resume) {
    results.Resume(context, {"schema", "git_hash", "compiler", "host_id", "quick", "rounds", "threads",
                             "targets", "peers"});
    fmt::print(stderr, "resuming: {} samples are kept\n", results.Benchmarks().size());
  }
  fmt::print(stderr, "{} rows, {} rounds, target {}, up to {} thread(s); results in {}\n", rows.size(),
             options.rounds, options.targets.front(), options.threads.back(), results.Path());
  CalibrateCores(topology);
  if (!RunRows(rows, options, &results)) return 130;
  results.Finish(true);
  CompleteContext(topology, results.Limits(), results.Benchmarks(), &results.Context()["ropeline"]);
  results.Finish(true);
  PrintSummary(results);
  fmt::print("\nResults: {}\n", results.Path());
  return 0;
}

}  // namespace
}  // namespace ropeline

int main(int argc, char** argv) {
  // A closed standard stream's number would be given to the results file.
  for (int fd : {0, 1, 2}) {
    if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", O_RDWR) == -1) return 1;
  }
  try {
    return ropeline::Main(argc, argv);
  } catch (const ropeline::BadUsage& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  } catch (const ropeline::PeerUnusable& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "bench_all: out of memory, expected room for buffers of a quarter of the memory\n");
    return 1;
  } catch (const std::system_error& error) {  // fmt's, where standard output is full
    std::fprintf(stderr, "bench_all: %s, expected standard output that can be written to\n", error.what());
    return 2;
  }
}
