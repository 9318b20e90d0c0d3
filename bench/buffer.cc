#include "bench/buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

namespace ropeline {

namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kLine = 64;
constexpr float kFill = 0.5f;

size_t RoundUp(size_t value, size_t to) { return (value + to - 1) / to * to; }

// Offset of a piece within a page: 0, 1088, 2176, 3264, 256 … bytes.
size_t Stagger(size_t piece) { return piece * kLine % 4096; }

}  // namespace

Mapping::Mapping(size_t bytes, Pages pages) : bytes_(RoundUp(std::max<size_t>(bytes, 1), kHugePage)) {
  base_bytes_ = bytes_ + kHugePage;
  base_ =
      mmap(nullptr, base_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base_ == MAP_FAILED) throw std::bad_alloc();
  data_ = reinterpret_cast<void*>(RoundUp(reinterpret_cast<uintptr_t>(base_), kHugePage));
  // Advice only: a kernel without it leaves pages as they are, and the run's context says so.
  (void)madvise(data_, bytes_, pages == Pages::kHuge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
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

size_t Arena::Room(size_t elements) { return RoundUp(4 * elements, 4096) + 2 * 4096; }

void Arena::Reset(size_t bytes) {
  used_ = 0;
  pieces_ = 0;
  if (bytes <= mapping_.Bytes()) return;
  mapping_ = Mapping();  // give the old one back first
  mapping_ = Mapping(bytes, pages_);
  std::fill_n(static_cast<float*>(mapping_.Data()), mapping_.Bytes() / 4, kFill);
}

float* Arena::Floats(size_t elements, bool keep) {
  char* start = static_cast<char*>(mapping_.Data()) + used_ + Stagger(pieces_);
  used_ += Room(elements);
  ++pieces_;
  float* floats = reinterpret_cast<float*>(start);
  if (!keep) std::fill_n(floats, elements, kFill);
  return floats;
}

Arena& ThreadArena(int thread, Pages pages) {
  static std::mutex mutex;
  static auto* const arenas = new std::map<std::pair<int, Pages>, std::unique_ptr<Arena>>;
  const std::lock_guard lock(mutex);
  auto& arena = (*arenas)[{thread, pages}];
  if (arena == nullptr) arena = std::make_unique<Arena>(pages);
  return *arena;
}

}  // namespace ropeline
