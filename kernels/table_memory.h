// Memory for tables that kernels read beside their tensor.
#ifndef ROPELINE_KERNELS_TABLE_MEMORY_H_
#define ROPELINE_KERNELS_TABLE_MEMORY_H_

#include <cstddef>
#include <memory>

namespace ropeline {

struct FreeTable {
  void operator()(float* table) const;
};
using Table = std::unique_ptr<float[], FreeTable>;

// `elements` floats, not initialised, aligned to 64 bytes. From 2 MiB on, aligned to 2 MiB and with huge
// pages asked for: a table in small pages would cost the kernels that read it address translations that their
// tensor does not pay. Throws std::bad_alloc.
Table AllocateTable(size_t elements);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_TABLE_MEMORY_H_
