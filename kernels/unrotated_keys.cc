#include "kernels/unrotated_keys.h"

#include <cmath>
#include <vector>

#include "kernels/angle_table.h"

namespace ropeline {

UnrotatedKeys::UnrotatedKeys(const KeyRotation& rotation, size_t capacity)
    : pairing_(rotation.pairing), bands_(rotation.inv_freq.size()) {
  const size_t blocks = (capacity + kKvTile - 1) / kKvTile;
  capacity_ = blocks * kKvTile;
  // Block b is position b of frequencies 32 times as large, exactly.
  std::vector<double> of_blocks(rotation.inv_freq);
  for (double& f : of_blocks) f *= kKvTile;
  of_block_ = TableMemory(blocks * 2 * bands_);
  BuildAngleTable(of_blocks, 0, blocks, AngleLayout::kSplit, of_block_.get());
  of_token_ = TableMemory(2 * bands_ * kKvTile);
  std::vector<float> rows(kKvTile * 2 * bands_);
  BuildAngleTable(rotation.inv_freq, 0, kKvTile, AngleLayout::kSplit, rows.data());
  for (size_t t = 0; t < kKvTile; ++t) {
    for (size_t i = 0; i < 2 * bands_; ++i) of_token_[i * kKvTile + t] = rows[t * 2 * bands_ + i];
  }
}

Cost TurnWhileReadingCost(const UnrotatedKeys& angles, size_t n_heads, size_t n_kv_heads, double tokens) {
  const auto d_rot = static_cast<double>(2 * angles.bands());
  const double blocks = std::ceil(tokens / kKvTile);
  return {.bytes_read = 4 * d_rot * (blocks + kKvTile),
          .flops =
              3 * d_rot * (tokens * static_cast<double>(n_kv_heads) + blocks * static_cast<double>(n_heads))};
}

}  // namespace ropeline
