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

// Half of an f32 0.5 is a denormal f16, and two f16 may make a denormal or infinite f32.
TEST(Arena, AnotherDtypeFillsAllAnew) {
  Arena arena(Pages::kHuge);
  arena.Reset(Arena::Room(100));
  arena.Floats(100)[3] = 7;
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBf16, Dtype::kF32}) {
    arena.Reset(Arena::Room(100, dtype), dtype);
    const void* elements = arena.Elements(100, /*keep=*/true);
    for (size_t i = 0; i < 100; ++i) ASSERT_EQ(LoadElement(dtype, elements, i), 0.5f) << DtypeName(dtype);
  }
  arena.Floats(100)[3] = 7;
  arena.Spoil();
  arena.Reset(Arena::Room(100));
  EXPECT_EQ(arena.Floats(100, /*keep=*/true)[3], 0.5f);
  EXPECT_LT(Arena::Room(100000, Dtype::kF16), Arena::Room(100000));
}

TEST(Arena, OneForEachThreadAndKindOfPages) {
  EXPECT_EQ(&ThreadArena(3), &ThreadArena(3));
  EXPECT_NE(&ThreadArena(3), &ThreadArena(4));
  EXPECT_NE(&ThreadArena(3), &ThreadArena(3, Pages::kSmall));
}

}  // namespace
}  // namespace ropeline
