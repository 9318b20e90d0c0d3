#include "model/reshape.h"

#include <gtest/gtest.h>

#include "model/presets.h"

namespace ropeline {
namespace {

const Where kWhere{"command line", "--heads"};

TEST(ReshapeTest, HeadsAreOneCountOrTwo) {
  EXPECT_EQ(ParseHeads("24/8", kWhere).n_heads, 24u);
  EXPECT_EQ(ParseHeads("24/8", kWhere).n_kv_heads, 8u);
  EXPECT_EQ(ParseHeads("24", kWhere).n_kv_heads, 24u);
  for (const char* text : {"", "/", "24/", "/8", "24/7", "8/24", "24/8/2", "0", "24/0", "x", "-1", "5000"}) {
    EXPECT_THROW(ParseHeads(text, kWhere), BadInput) << text;
  }
}

TEST(ReshapeTest, TheModelsOwnShapeChangesNothing) {
  for (const char* name : {"llama-3.2-3b", "gpt2", "t5-base"}) {
    const Llm llm = Preset(name, kWhere);
    const Attention& attention = *llm.MainAttention();
    const Llm same =
        Reshaped(llm, HeadCounts{attention.n_heads, attention.n_kv_heads}, attention.d_head_k, kWhere);
    EXPECT_EQ(same.ParamsTotal(), llm.ParamsTotal()) << name;
    EXPECT_EQ(same.d_model, llm.d_model) << name;
  }
}

TEST(ReshapeTest, MatricesFollowTheShape) {
  const Llm llm = Reshaped(Preset("llama-3.2-3b", kWhere), HeadCounts{12, 4}, 64, kWhere);
  EXPECT_EQ(llm.d_model, 768u);
  EXPECT_EQ(llm.layers.size(), 28u);
  const Attention& attention = *llm.MainAttention();
  EXPECT_EQ(attention.n_heads, 12u);
  EXPECT_EQ(attention.n_kv_heads, 4u);
  EXPECT_EQ(attention.d_head_k, 64u);
  EXPECT_EQ(attention.d_head_v, 64u);
  EXPECT_EQ(attention.position.d_rot(), 64u);
  uint64_t layer = 0;
  for (const Matrix& matrix : llm.matrices) layer += matrix.layer == 0 ? matrix.Elements() : 0;
  // Q and O 768², K and V 256·768, three of the feed-forward 768·2048 (8192 · 768 ÷ 3072).
  EXPECT_EQ(layer, 2u * 768 * 768 + 2 * 256 * 768 + 3 * 768 * 2048);
}

TEST(ReshapeTest, AModelWithoutMatricesHasNoOtherShape) {
  EXPECT_THROW(Reshaped(Preset("article-3b", kWhere), HeadCounts{8, 8}, {}, kWhere), BadInput);
}

}  // namespace
}  // namespace ropeline
