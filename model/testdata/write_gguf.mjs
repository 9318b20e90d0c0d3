// Wrote the .gguf files beside it: node write_gguf.mjs, with @huggingface/gguf 0.4.6 from npm installed.
// Headers of models that exist (Llama 3.1 8B, Gemma 3 1B, Nemotron-H 8B), with vocabularies of a few words.
import { writeFileSync } from "node:fs";
import { GGUFValueType as T, serializeGgufMetadata } from "@huggingface/gguf";

const u32 = (value) => ({ value, type: T.UINT32 });
const f32 = (value) => ({ value, type: T.FLOAT32 });
const text = (value) => ({ value, type: T.STRING });
const list = (subType, value) => ({ value, type: T.ARRAY, subType });

function write(file, version, littleEndian, architecture, keys) {
  const metadata = {
    version: u32(version),
    tensor_count: { value: 0n, type: T.UINT64 },
    kv_count: { value: 0n, type: T.UINT64 },
    "tokenizer.ggml.tokens": list(T.STRING, ["<s>", "</s>", "ä", "🙂"]),
    "general.architecture": text(architecture),
  };
  for (const [key, value] of Object.entries(keys)) metadata[`${architecture}.${key}`] = value;
  metadata["tokenizer.ggml.scores"] = list(T.FLOAT32, [0, -1, -2, -3.5]);
  writeFileSync(file, serializeGgufMetadata(metadata, { littleEndian }));
}

write("llama_v3_little_endian.gguf", 3, true, "llama", {
  block_count: u32(32),
  context_length: u32(131072),
  embedding_length: u32(4096),
  feed_forward_length: u32(14336),
  "attention.head_count": u32(32),
  "attention.head_count_kv": u32(8),
  "rope.freq_base": f32(500000),
  "rope.dimension_count": u32(128),
  vocab_size: u32(128256),
});

write("gemma3_v3_big_endian.gguf", 3, false, "gemma3", {
  context_length: u32(32768),
  embedding_length: u32(1152),
  block_count: u32(26),
  feed_forward_length: u32(6912),
  "attention.head_count": u32(4),
  "attention.head_count_kv": u32(1),
  "attention.key_length": u32(256),
  "attention.value_length": u32(256),
  "attention.sliding_window": u32(512),
  "rope.freq_base": f32(1000000),
});

// M mamba2, * attention, - feed-forward.
const pattern = "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-";
write("nemotron_h_v2_little_endian.gguf", 2, true, "nemotron_h", {
  block_count: u32(pattern.length),
  context_length: u32(8192),
  embedding_length: u32(4096),
  feed_forward_length: list(T.INT32, [...pattern].map((layer) => (layer === "-" ? 21504 : 0))),
  "attention.head_count": list(T.INT32, [...pattern].map((layer) => (layer === "*" ? 32 : 0))),
  "attention.head_count_kv": list(T.INT32, [...pattern].map((layer) => (layer === "*" ? 8 : 0))),
  "attention.key_length": u32(128),
  "attention.value_length": u32(128),
  "ssm.conv_kernel": u32(4),
  "ssm.state_size": u32(128),
  "ssm.group_count": u32(8),
  "ssm.inner_size": u32(8192),
  "ssm.time_step_rank": u32(128),
});
