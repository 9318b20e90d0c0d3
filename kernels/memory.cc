#include "kernels/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

namespace ropeline {

namespace {

constexpr size_t kLine = 64;
constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kLarge = size_t{32} << 10;

uintptr_t RoundUp(uintptr_t value, size_t to) { return (value + to - 1) / to * to; }

}  // namespace

Mapping::Mapping(size_t bytes, Pages pages) : bytes_(RoundUp(std::max<size_t>(bytes, 1), kHugePage)) {
  base_bytes_ = bytes_ + kHugePage;
  base_ =
      mmap(nullptr, base_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base_ == MAP_FAILED) {
    base_ = nullptr;
    throw std::bad_alloc();
  }
  data_ = reinterpret_cast<void*>(RoundUp(reinterpret_cast<uintptr_t>(base_), kHugePage));
#ifdef MADV_HUGEPAGE
  // Advice only: a kernel without it leaves pages as they are, and the run's context says so.
  (void)madvise(data_, bytes_, pages == Pages::kHuge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
#else
  (void)pages;
#endif
}

Mapping::~Mapping() {
  if (base_ != nullptr) munmap(base_, base_bytes_);
}

Mapping::Mapping(Mapping&& other) noexcept { *this = std::move(other); }

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(base_, other.base_);
  std::swap(base_bytes_, other.base_bytes_);
  return *this;
}

TableMemory::TableMemory(size_t elements) {
  const size_t bytes = elements * sizeof(float) + kLine;
  char* start = nullptr;
  if (bytes >= kLarge) {
    mapping_ = Mapping(bytes, Pages::kHuge);
    start = static_cast<char*>(mapping_.Data());
  } else {
    heap_ = std::aligned_alloc(kPage, RoundUp(bytes, kPage));
    if (heap_ == nullptr) throw std::bad_alloc();
    start = static_cast<char*>(heap_);
  }
  floats_ = reinterpret_cast<float*>(start + kLine);
}

TableMemory::~TableMemory() { std::free(heap_); }

TableMemory::TableMemory(TableMemory&& other) noexcept { *this = std::move(other); }

TableMemory& TableMemory::operator=(TableMemory&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(heap_, other.heap_);
  std::swap(floats_, other.floats_);
  return *this;
}

}  // namespace ropeline
