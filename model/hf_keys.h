// Quantities of a config.json by every name that published files give them, the usual one first; a dot
// reaches into an object. A count is refused outside [least, most].
#ifndef ROPELINE_MODEL_HF_KEYS_H_
#define ROPELINE_MODEL_HF_KEYS_H_

#include <cstdint>

namespace ropeline {

struct HfKey {
  const char* names;  // separated by blanks
  uint64_t least = 0;
  uint64_t most = uint64_t{1} << 26;
};

inline constexpr uint64_t kMostLayers = 4096;
inline constexpr uint64_t kMostHeads = 1 << 16;
inline constexpr uint64_t kMostExperts = 1 << 16;
inline constexpr uint64_t kMostWidth = 1 << 24;
inline constexpr uint64_t kMostTokens = uint64_t{1} << 40;

inline constexpr HfKey kHfLayers{"num_hidden_layers n_layer n_layers num_layers decoder_layers", 1,
                                 kMostLayers};
inline constexpr HfKey kHfModel{"hidden_size n_embd d_model n_embed model_dim dim", 1, kMostWidth};
inline constexpr HfKey kHfHeads{"num_attention_heads n_head n_heads num_heads decoder_attention_heads", 1,
                                kMostHeads};
inline constexpr HfKey kHfKvHeads{
    "num_key_value_heads num_kv_heads n_head_kv attn_config.kv_n_heads multi_query_group_num", 1, kMostHeads};
inline constexpr HfKey kHfHeadDim{"head_dim kv_channels attention_head_dim d_kv", 1, kMostWidth};
inline constexpr HfKey kHfValueDim{"v_head_dim", 0, kMostWidth};  // 0: as the head's
inline constexpr HfKey kHfFfn{
    "intermediate_size n_inner ffn_hidden_size ffn_dim d_ff ff_intermediate_size decoder_ffn_dim hidden_dim "
    "ffn_config.ffn_hidden_size",
    1, kMostWidth};
inline constexpr HfKey kHfVocabulary{"vocab_size padded_vocab_size", 1};
inline constexpr HfKey kHfMaxContext{
    "max_position_embeddings n_positions seq_length max_seq_len max_sequence_length model_max_length n_ctx "
    "max_seq_length max_target_positions",
    1, kMostTokens};

inline constexpr HfKey kHfWindow{"sliding_window sliding_window_size window_size", 1, kMostTokens};
inline constexpr HfKey kHfChunk{"attention_chunk_size", 1, kMostTokens};
inline constexpr HfKey kHfWindowPattern{"sliding_window_pattern _sliding_window_pattern", 1, kMostLayers};
inline constexpr HfKey kHfMaxWindowLayers{"max_window_layers", 0, kMostLayers};
inline constexpr HfKey kHfLayerTypes{"layer_types layers_block_type"};

inline constexpr HfKey kHfTheta{
    "rope_theta rotary_emb_base rope_embedding_base attn_config.rope_theta rope_base"};
inline constexpr HfKey kHfRotaryShare{"partial_rotary_factor rotary_pct rope_pct rotary_percent"};
inline constexpr HfKey kHfRotaryDim{"rotary_dim", 0, kMostWidth};
inline constexpr HfKey kHfOriginalContext{"original_max_position_embeddings", 1, kMostTokens};

inline constexpr HfKey kHfQRank{"q_lora_rank", 0, kMostWidth};
inline constexpr HfKey kHfKvRank{"kv_lora_rank", 1, kMostWidth};
inline constexpr HfKey kHfNopeDim{"qk_nope_head_dim", 1, kMostWidth};
inline constexpr HfKey kHfRopeDim{"qk_rope_head_dim", 1, kMostWidth};

inline constexpr HfKey kHfExperts{
    "num_local_experts num_experts n_routed_experts moe_num_experts ffn_config.moe_num_experts", 0,
    kMostExperts};
inline constexpr HfKey kHfTopK{
    "num_experts_per_tok experts_per_token num_experts_per_token moe_k moe_topk top_k_experts "
    "ffn_config.moe_top_k",
    1, kMostExperts};
inline constexpr HfKey kHfExpertWidth{"moe_intermediate_size expert_intermediate_size", 1, kMostWidth};
inline constexpr HfKey kHfSharedExperts{
    "n_shared_experts num_shared_experts num_shared_expert moe_num_shared_experts", 0, kMostExperts};
inline constexpr HfKey kHfSharedWidth{
    "shared_expert_intermediate_size moe_shared_expert_intermediate_size shared_intermediate_size", 0,
    kMostWidth};
inline constexpr HfKey kHfFirstDense{"first_k_dense_replace num_dense_layers", 0, kMostLayers};
inline constexpr HfKey kHfMoeEvery{"moe_layer_freq", 1, kMostLayers};
inline constexpr HfKey kHfSparseStep{"decoder_sparse_step interleave_moe_layer_step moe_layer_frequency", 0,
                                     kMostLayers};
inline constexpr HfKey kHfDenseLayers{"mlp_only_layers"};

}  // namespace ropeline

#endif  // ROPELINE_MODEL_HF_KEYS_H_
