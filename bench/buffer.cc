#include "bench/buffer.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace ropeline {

namespace {

constexpr size_t kLine = 64;
constexpr float kFill = 0.5f;

size_t RoundUp(size_t value, size_t to) { return (value + to - 1) / to * to; }

void Fill(Dtype dtype, void* start, size_t elements) {
  if (dtype == Dtype::kF32) {
    std::fill_n(static_cast<float*>(start), elements, kFill);
    return;
  }
  uint16_t value;
  StoreElement(dtype, &value, 0, kFill);
  std::fill_n(static_cast<uint16_t*>(start), elements, value);
}

// Offset of a piece within a page: one line more for each, as a TableMemory starts one line after its tensor.
size_t Stagger(size_t piece) { return piece * kLine % 4096; }

}  // namespace

size_t Arena::Room(size_t elements, Dtype dtype) {
  return RoundUp(DtypeBytes(dtype) * elements, 4096) + 2 * 4096;
}

void Arena::Reset(size_t bytes, Dtype dtype) {
  used_ = 0;
  pieces_ = 0;
  if (bytes > mapping_.Bytes()) {
    mapping_ = Mapping();  // give the old one back first
    mapping_ = Mapping(bytes, pages_);
    filled_ = 0;
  }
  if (dtype != dtype_) filled_ = 0;
  dtype_ = dtype;
  if (bytes <= filled_) return;
  Fill(dtype, static_cast<char*>(mapping_.Data()) + filled_, (bytes - filled_) / DtypeBytes(dtype));
  filled_ = bytes;
}

void* Arena::Elements(size_t elements, bool keep) {
  char* start = static_cast<char*>(mapping_.Data()) + used_ + Stagger(pieces_);
  used_ += Room(elements, dtype_);
  ++pieces_;
  if (!keep) Fill(dtype_, start, elements);
  return start;
}

float* Arena::Floats(size_t elements, bool keep) { return static_cast<float*>(Elements(elements, keep)); }

Arena& ThreadArena(int thread, Pages pages) {
  static std::mutex mutex;
  static auto* const arenas = new std::map<std::pair<int, Pages>, std::unique_ptr<Arena>>;
  const std::lock_guard lock(mutex);
  auto& arena = (*arenas)[{thread, pages}];
  if (arena == nullptr) arena = std::make_unique<Arena>(pages);
  return *arena;
}

}  // namespace ropeline
