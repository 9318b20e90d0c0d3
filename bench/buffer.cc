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

// Offset of a piece within a page: one line more for each, as a TableMemory starts one line after its tensor.
size_t Stagger(size_t piece) { return piece * kLine % 4096; }

}  // namespace

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
