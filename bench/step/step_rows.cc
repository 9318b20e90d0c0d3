// Rows of the family step: a whole decode step, and one prefill chunk, of a model's real shape.
#include <barrier>
#include <memory>
#include <thread>
#include <vector>

#include "bench/harness.h"
#include "bench/step/step_choice.h"
#include "bench/step/step_cost.h"
#include "bench/step/step_run.h"

namespace ropeline {

namespace {

constexpr uint64_t kSeed = 1;

// A model in memory: weights once, caches of one format at a time.
struct LoadedStep {
  LoadedStep(const StepPlan& plan, const Topology& machine) : topology(machine), weights(plan) {
    ByAllCores([&](size_t part, size_t parts) { weights.Fill(part, parts, kSeed); });
  }

  // Filled by the cores that will read it, so that its pages are near them.
  template <class Work>
  void ByAllCores(const Work& work) const {
    const size_t parts = std::max<size_t>(1, topology.UsableCores().size());
    std::vector<std::thread> helpers;
    for (size_t part = 0; part < parts; ++part) {
      helpers.emplace_back([&, part] {
        PinThread(topology, static_cast<int>(part));
        work(part, parts);
      });
    }
    for (std::thread& helper : helpers) helper.join();
  }

  const Topology topology;
  StepWeights weights;
  std::unique_ptr<StepPosition> position;
  std::unique_ptr<StepCaches> caches;
  size_t filled = 0;  // tokens of the caches
};

class StepSession {
 public:
  StepSession(StepChoice choice, const Topology& topology)
      : choice_(std::move(choice)), topology_(topology) {}

  const StepChoice& choice() const { return choice_; }
  const Topology& topology() const { return topology_; }
  StepRun& Run() const { return *run_; }

  // On one thread, while the others of its row wait: the model with caches of that format, filled to `depth`,
  // and a team. The model stays until a row of another family begins.
  void Prepare(const Row& row, KvFormat format, size_t depth) {
    run_.reset();
    auto loaded = loaded_.lock();
    if (loaded == nullptr) {
      loaded = std::make_shared<LoadedStep>(choice_.plan, topology_);
      loaded->position =
          std::make_unique<StepPosition>(choice_.plan, loaded->weights, choice_.Capacity() + kKvTile);
      loaded_ = loaded;
      KeepForFamily(row, loaded);
    }
    if (loaded->caches == nullptr || loaded->caches->format() != format) {
      loaded->caches.reset();
      loaded->caches = std::make_unique<StepCaches>(choice_.plan, format, choice_.Capacity());
      loaded->filled = 0;
    }
    if (loaded->filled < depth) {
      loaded->ByAllCores([&](size_t part, size_t parts) { loaded->caches->Fill(part, parts, depth); });
      loaded->filled = depth;
    }
    loaded->caches->FilledTo(depth);
    run_ = std::make_unique<StepRun>(choice_.plan, loaded->weights, *loaded->position, loaded->caches.get(),
                                     static_cast<size_t>(row.threads), kStepChunk);
  }

 private:
  const StepChoice choice_;
  const Topology topology_;
  std::weak_ptr<LoadedStep> loaded_;
  std::unique_ptr<StepRun> run_;
};

void SetStepCounters(const Row& row, const StepRun& run, bool prefill, size_t tokens,
                     benchmark::State& state) {
  const double steps = static_cast<double>(state.iterations()) * row.operations;
  for (const StepTerm term : kAllStepTerms) {
    state.counters[std::string("term_") + StepTermName(term, prefill) + "_ms"] =
        1e3 * run.Times().Seconds(term) / steps;
  }
  state.counters["tok_per_s"] =
      1e9 * static_cast<double>(tokens) / static_cast<double>(state.counters["call_ns"]);
}

void AddStepRow(const Plan& plan, const std::shared_ptr<StepSession>& session, KvFormat format, size_t depth,
                bool prefill, int threads, std::vector<Row>* rows) {
  const StepChoice& choice = session->choice();
  Row row;
  row.name = {"step", prefill ? "prefill" : "decode", choice.weights, plan.targets.front(), {}};
  row.name.With("model", choice.model).With("context", depth).With("kv", KvFormatName(format));
  if (prefill) row.name.With("chunk", kStepChunk);
  row.name.With("threads", static_cast<size_t>(threads));
  row.threads = threads;
  row.cost = prefill ? PrefillStepCost(choice.plan, format, depth, kStepChunk)
                     : DecodeStepCost(choice.plan, format, depth);
  row.items = prefill ? static_cast<double>(kStepChunk) : 1;  // tokens
  row.working_set_bytes = row.cost.Bytes();
  row.traffic = Traffic::kRead;
  row.cold = true;
  row.operations = prefill ? 1 : 8;
  row.most_rounds = prefill ? (plan.quick ? 1 : 2) : (plan.quick ? 3 : 5);
  row.counters["step_bytes"] = row.cost.Bytes();
  row.counters["step_flops"] = row.cost.flops;
  const auto ready = std::make_shared<std::barrier<>>(threads);
  row.body = [=](benchmark::State& state, const Row& self) {
    BeginRow(state, self, session->topology());
    const auto thread = static_cast<size_t>(state.thread_index());
    if (thread == 0) session->Prepare(self, format, depth);
    ready->arrive_and_wait();
    StepRun& run = session->Run();
    const std::vector<int32_t> tokens(kStepChunk, 1);
    const auto decode = [&] { run.Decode(thread, tokens[0], depth); };
    const auto warm_up = [&] {
      // Of a chunk as few tokens as touch every weight: a whole one takes seconds.
      prefill ? run.Prefill(thread, tokens.data(), TokenPanels::kTokens, depth) : decode();
      if (thread == 0) run.ResetTimes();
    };
    // Right before and right after: the speed of memory drifts, and not every region has the same.
    const double before = run.ReadBandwidth(thread);
    TimeCalls(
        state, self,
        [&] {
          if (prefill) return run.Prefill(thread, tokens.data(), kStepChunk, depth);
          for (int step = 0; step < static_cast<int>(self.operations); ++step) decode();
        },
        warm_up);
    const double after = run.ReadBandwidth(thread);
    if (thread == 0) {
      SetStepCounters(self, run, prefill, prefill ? kStepChunk : 1, state);
      state.counters["weights_read_gb_s"] = (before + after) / 2e9;
    }
    ready->arrive_and_wait();
  };
  rows->push_back(std::move(row));
}

}  // namespace

void AddStepRows(const Plan& plan, const StepChoice& choice, std::vector<Row>* rows) {
  const auto session = std::make_shared<StepSession>(choice, plan.topology);
  for (const KvFormat format : choice.kv) {
    for (const size_t depth : choice.contexts) {
      for (const bool prefill : {false, true}) {
        for (const int threads : plan.threads) {
          AddStepRow(plan, session, format, depth, prefill, threads, rows);
        }
      }
    }
  }
}

}  // namespace ropeline
