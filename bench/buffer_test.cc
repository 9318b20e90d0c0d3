#include "bench/buffer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

namespace ropeline {
namespace {

TEST(Mapping, IsAlignedToAHugePageAndMoves) {
  Mapping mapping(5000, Pages::kHuge);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(mapping.Data()) % (2 << 20), 0u);
  EXPECT_GE(mapping.Bytes(), 5000u);
  void* data = mapping.Data();
  Mapping other = std::move(mapping);
  EXPECT_EQ(other.Data(), data);
  EXPECT_EQ(mapping.Data(), nullptr);  // NOLINT(bugprone-use-after-move): what a moved-from mapping must be
}

TEST(Arena, PiecesAreDisjointFilledAndDoNotShareTheirPageOffset) {
  Arena arena(Pages::kHuge);
  constexpr size_t kElements = 1000;
  arena.Reset(3 * Arena::Room(kElements));
  float* pieces[3];
  for (float*& piece : pieces) {
    piece = arena.Floats(kElements);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(piece) % 64, 0u);
    for (size_t i = 0; i < kElements; ++i) ASSERT_EQ(piece[i], 0.5f);
    for (size_t i = 0; i < kElements; ++i) piece[i] = 7;
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_GE(pieces[i + 1], pieces[i] + kElements);
    EXPECT_NE(reinterpret_cast<uintptr_t>(pieces[i]) % 4096,
              reinterpret_cast<uintptr_t>(pieces[i + 1]) % 4096);
  }
  // A new row gets fresh values, or what was left where it asks to keep it.
  arena.Reset(Arena::Room(kElements));
  EXPECT_EQ(arena.Floats(kElements, /*keep=*/true)[5], 7);
  arena.Reset(Arena::Room(kElements));
  EXPECT_EQ(arena.Floats(kElements)[5], 0.5f);
}

TEST(Arena, OneForEachThreadAndKindOfPages) {
  EXPECT_EQ(&ThreadArena(3), &ThreadArena(3));
  EXPECT_NE(&ThreadArena(3), &ThreadArena(4));
  EXPECT_NE(&ThreadArena(3), &ThreadArena(3, Pages::kSmall));
}

}  // namespace
}  // namespace ropeline
