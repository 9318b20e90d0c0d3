// Rows of another library: the same name, cost and limit as the row of ours that they stand beside.
#ifndef ROPELINE_BENCH_PEER_PEER_ROW_H_
#define ROPELINE_BENCH_PEER_PEER_ROW_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/harness.h"
#include "bench/peer/ggml_session.h"

namespace ropeline {

// Makes the tensors of a row and its graph: `operations` of them.
using BuildGraph = std::function<void(GgmlSession& session, size_t operations)>;

// Operations in one graph. Cold: each on tensors of its own, as many as leave every cache; hot: as many on
// the same tensors as hide what starting a graph costs (an engine's has a thousand nodes).
size_t OperationsIn(const Plan& plan, const Row& row);

// The row of `like` (ours, or one with no twin) done by ggml: on as many threads of its own, each kept on a
// core.
Row GgmlRow(const Plan& plan, const Row& like, BuildGraph build);

// "f32", "q8_0" … of a row's dtype; nothing where ggml has no such type or rows have none.
std::optional<ggml::Type> GgmlType(const std::string& dtype);

// Nothing where `ours` is no row that ggml can stand beside.
std::optional<BuildGraph> GgmlPlacement(const Row& ours);
std::optional<BuildGraph> GgmlAttentionGraph(const Row& ours);

// Rows without one of ours: products with matrices, soft_max_ext.
void AddGgmlProducts(const Plan& plan, std::vector<Row>* rows, std::vector<SkippedRow>* skipped);
void AddGgmlSoftMax(const Plan& plan, std::vector<Row>* rows);

// Products by OpenBLAS and oneDNN, where this build has them; otherwise a reason in `skipped`.
void AddBlasRows(const Plan& plan, std::vector<Row>* rows, std::vector<SkippedRow>* skipped);

// A product of n vectors with a matrix [rows, cols] as a row: weights/matvec or linear/matmul. Cold: with one
// matrix after another.
Row ProductRow(const Plan& plan, const std::string& dtype, double bytes_per_weight, size_t rows, size_t cols,
               size_t n, Cache cache, int threads);

}  // namespace ropeline

#endif  // ROPELINE_BENCH_PEER_PEER_ROW_H_
