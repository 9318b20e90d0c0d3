// The machine a prediction is for: what bench_all measured on it (bench.json, see results/README.md), or two
// figures.
#ifndef ROPELINE_MODEL_MACHINE_H_
#define ROPELINE_MODEL_MACHINE_H_

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/roofline.h"
#include "kernels/row_name.h"
#include "model/bad_input.h"

namespace ropeline {

inline constexpr uint64_t kResultsSchema = 1;

// A working set beyond every measured one: Roofline clamps it to the end of its curve, main memory.
inline constexpr double kMainMemoryBytes = std::numeric_limits<double>::infinity();

// A benchmark row, its repetitions taken together by their medians. Samples that were tainted by another
// process count only where a row has no others.
struct MeasuredRow {
  RowName name;
  double call_ns = 0;  // one call over the whole shape
  std::optional<double> bytes_per_second;
  std::optional<double> flops_per_second;
  std::optional<double> items_per_second;
  std::optional<double> roof;
  std::optional<double> limit_ns;  // call_ns at this run's limits
  std::optional<double> working_set_bytes;
  // What a row tells beside its time: bias_bytes, angle_error_32k …, output_error, recall.
  std::map<std::string, double> counters;
  size_t samples = 0;
  bool tainted = false;  // every sample was
};

// Another library whose kernels a run timed beside ours; what it does not tell is "".
struct PeerLibrary {
  std::string name;     // as in row names: "ggml-0.25.1"
  std::string library;  // "ggml"
  std::string version, commit;
  std::string variant;  // of its kernels for this CPU: "icelake"
};

struct SkippedPeerRow {
  std::string row, reason;
};

struct Machine {
  std::string file;       // path of the bench.json; "" where two figures were given
  std::string cpu_model;  // "" unknown, as for the next four
  std::string host_id;
  std::string date;
  std::string version;                         // of the ropeline that measured
  std::string target;                          // Highway target of the run's rows, the best of several
  std::optional<uint64_t> memory_bytes;        // physical memory, or the cgroup's limit where that is lower
  std::optional<int> threads_default;          // what the run took as this machine's threads
  std::vector<double> cache_bytes;             // measured capacities, inner first
  std::vector<std::string> measured_oddities;  // what was odd while it was measured, a sentence each
  bool quick = false;
  bool complete = true;  // false: the run was stopped
  Roofline roofline;
  std::vector<MeasuredRow> rows;  // ours, in the order of the file
  // Of other libraries. Nothing is predicted from them.
  std::vector<PeerLibrary> peers;
  std::vector<MeasuredRow> peer_rows;
  std::vector<SkippedPeerRow> skipped_peer_rows;
  std::map<int, double> barrier_ns;   // threads → one barrier of theirs, rows sync/barrier/none/any
  bool has_small_operations = false;  // rows linear/rms_norm, of the operations between products

  bool measured() const { return !file.empty(); }
  // True: the roofline's flops are a measured peak, which bounds every operation. False: they are a figure
  // that someone typed, a rate of prefill's matrix products as the article's 50 GFLOP/s; a decode step's
  // products with a vector may run faster or slower, so they bound prefill only.
  bool peak_is_measured() const { return measured(); }
  // Thread counts with both a read curve and a peak, ascending; empty for two figures, which hold for any.
  std::vector<int> Threads() const;
};

// Throws BadInput for anything that is not a complete enough bench.json of ours: it needs a read curve and a
// peak for at least one thread count.
Machine ReadMachine(const std::string& path);

// Of which host a result is and from when, without reading its rows; nothing where the file has no
// context.ropeline. Dates are ISO 8601 in UTC: their order is that of their text.
struct MachineHead {
  std::string host_id, date;
};
std::optional<MachineHead> ReadMachineHead(const std::string& path);

Machine MachineFromFigures(double bytes_per_second, double flops_per_second);

// Throws BadInput, which lists the thread counts that were measured, where `threads` was not.
void RequireThreads(const Machine& machine, int threads, const Where& where);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_MACHINE_H_
