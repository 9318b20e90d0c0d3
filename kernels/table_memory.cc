#include "kernels/table_memory.h"

#include <cstdlib>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace ropeline {

void FreeTable::operator()(float* table) const { std::free(table); }

Table AllocateTable(size_t elements) {
  constexpr size_t kLine = 64;
  constexpr size_t kHugePage = size_t{2} << 20;
  const size_t bytes = elements * sizeof(float);
  const size_t alignment = bytes >= kHugePage ? kHugePage : kLine;
  const size_t rounded = (bytes + alignment) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) throw std::bad_alloc();
#ifdef __linux__
  if (bytes >= kHugePage) (void)madvise(memory, rounded, MADV_HUGEPAGE);  // advice: may be refused
#endif
  return Table(static_cast<float*>(memory));
}

}  // namespace ropeline
