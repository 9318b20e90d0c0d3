#include "bench/weight_ring.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

namespace ropeline {

namespace {

constexpr size_t kWidth = 4096;      // of the rows that weights are made up in: whole blocks of any dtype
constexpr size_t kMadeUp = 64;       // such rows; the rest are copies of them
constexpr float kDeviation = 0.02f;  // 1 / √2048, about

}  // namespace

void WeightRing::Reset(WeightDtype dtype, size_t rows, size_t cols, size_t slots) {
  matrix_ = {dtype, rows, cols, nullptr};
  slots_ = slots;
  next_ = 0;
  const size_t row_bytes = WeightRowBytes(dtype, kWidth);
  const size_t needed = (slots * matrix_.Bytes() + row_bytes - 1) / row_bytes;
  if (needed * row_bytes > mapping_.Bytes()) {
    mapping_ = Mapping();  // give the old one back first
    mapping_ = Mapping(needed * row_bytes, Pages::kHuge);
    filled_rows_ = 0;
  }
  if (dtype != dtype_) filled_rows_ = 0;
  dtype_ = dtype;
  if (needed <= filled_rows_) return;
  auto* data = static_cast<uint8_t*>(mapping_.Data());
  if (const size_t made_up = std::min(kMadeUp, needed); filled_rows_ < made_up) {
    FillWeights(dtype, kWidth, filled_rows_, made_up, /*seed=*/1, kDeviation, data);
    filled_rows_ = made_up;
  }
  for (size_t row = filled_rows_; row < needed; ++row) {
    std::memcpy(data + row * row_bytes, data + row % kMadeUp * row_bytes, row_bytes);
  }
  filled_rows_ = needed;
}

WeightMatrix WeightRing::Next() {
  matrix_.data = static_cast<const uint8_t*>(mapping_.Data()) + next_ * matrix_.Bytes();
  next_ = next_ + 1 == slots_ ? 0 : next_ + 1;
  return matrix_;
}

WeightRing& ThreadWeights(int thread) {
  static std::mutex mutex;
  static auto* const rings = new std::map<int, std::unique_ptr<WeightRing>>;
  const std::lock_guard lock(mutex);
  auto& ring = (*rings)[thread];
  if (ring == nullptr) ring = std::make_unique<WeightRing>();
  return *ring;
}

}  // namespace ropeline
