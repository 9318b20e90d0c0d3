#include "kernels/table_memory.h"

#include <cstdlib>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace ropeline {

namespace {

// Offset of every table within its page. A kernel's tensor usually starts a page or is 64-byte aligned near
// its start; a load whose low 12 address bits are those of a store just made waits for it, so tables keep
// away from there.
constexpr size_t kOffset = 64;

}  // namespace

void FreeTable::operator()(float* table) const { std::free(reinterpret_cast<char*>(table) - kOffset); }

Table AllocateTable(size_t elements) {
  constexpr size_t kPage = 4096;
  constexpr size_t kHugePage = size_t{2} << 20;
  const size_t bytes = elements * sizeof(float) + kOffset;
  const size_t alignment = bytes >= kHugePage ? kHugePage : kPage;
  const size_t rounded = (bytes + alignment) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) throw std::bad_alloc();
#ifdef __linux__
  if (bytes >= kHugePage) (void)madvise(memory, rounded, MADV_HUGEPAGE);  // advice: may be refused
#endif
  return Table(reinterpret_cast<float*>(static_cast<char*>(memory) + kOffset));
}

}  // namespace ropeline
