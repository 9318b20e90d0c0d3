#!/usr/bin/env python3
"""Writes a GGUF file of a real model's shape with random weights, for timing an engine. It says nothing sensible.

usage: scripts/write_gguf.py SHAPE FORMAT FILE
  SHAPE    llama-3.2-1b, qwen2.5-0.5b or tiny (a llama of 0.9 million parameters, for tests)
  FORMAT   f16, q8_0 or q4_0

Tensors have the types that llama-quantize gives that format: vectors f32; where embeddings are tied, those of q4_0 are
q6_K, or q8_0 where rows are no multiple of 256. There are token ids but no tokenizer ("no_vocab"). The layout is that of
https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, blocks are those of ggml-common.h.
"""
import math
import os
import struct
import sys

import numpy

ALIGNMENT = 32
U32, F32, STRING = 4, 6, 8  # types of metadata values
F16_SCALES = 64  # different scales that blocks of one tensor have

# bias: of Q, K and V. llama3: RoPE frequencies are divided, factor 32 over 8,192 trained tokens.
SHAPES = {
    "llama-3.2-1b": dict(arch="llama", layers=16, d_model=2048, heads=32, kv_heads=8, d_head=64, ffn=8192, vocabulary=128256,
                         context=131072, base=5e5, eps=1e-5, bias=False, llama3=True),
    "qwen2.5-0.5b": dict(arch="qwen2", layers=24, d_model=896, heads=14, kv_heads=2, d_head=64, ffn=4864, vocabulary=151936,
                         context=32768, base=1e6, eps=1e-6, bias=True, llama3=False),
    "tiny": dict(arch="llama", layers=2, d_model=256, heads=4, kv_heads=2, d_head=64, ffn=256, vocabulary=512,
                 context=4096, base=1e4, eps=1e-5, bias=False, llama3=False),
}


class Type:
    """A tensor type: its number in ggml, elements and bytes of a block, and the blocks of `n` random elements."""

    def __init__(self, number, elements, size, blocks):
        self.number, self.elements, self.size, self.blocks = number, elements, size, blocks


def f32(_, std, n):
    # Vectors: a norm's weights are 1, and a bias is small.
    return numpy.full(n, std, "<f4")


def f16(rng, std, n):
    table = (rng.standard_normal(1 << 16) * std).astype("<f2")
    return table[rng.integers(0, 1 << 16, n, numpy.uint16)]


def block_scales(rng, of_step, n_blocks):
    table = (of_step * rng.uniform(0.8, 1.2, F16_SCALES)).astype("<f2")
    return table[rng.integers(0, F16_SCALES, n_blocks, numpy.uint8)]


def random_bytes(rng, shape):
    return numpy.frombuffer(rng.bytes(math.prod(shape)), numpy.uint8).reshape(shape)


def q8_0(rng, std, n):
    blocks = numpy.empty(n // 32, [("d", "<f2"), ("q", "u1", 32)])
    blocks["d"] = block_scales(rng, std / 73.9, len(blocks))  # bytes spread evenly over 256 values
    blocks["q"] = random_bytes(rng, blocks["q"].shape)
    return blocks


def q4_0(rng, std, n):
    blocks = numpy.empty(n // 32, [("d", "<f2"), ("q", "u1", 16)])
    blocks["d"] = block_scales(rng, std / 4.63, len(blocks))  # -8 to 7
    blocks["q"] = random_bytes(rng, blocks["q"].shape)
    return blocks


def q6_k(rng, std, n):
    blocks = numpy.empty(n // 256, [("q", "u1", 192), ("scales", "i1", 16), ("d", "<f2")])
    blocks["q"] = random_bytes(rng, blocks["q"].shape)  # -32 to 31
    blocks["scales"] = 100
    blocks["d"] = block_scales(rng, std / 18.5 / 100, len(blocks))
    return blocks


TYPES = {
    "f32": Type(0, 1, 4, f32),
    "f16": Type(1, 1, 2, f16),
    "q4_0": Type(2, 32, 18, q4_0),
    "q8_0": Type(8, 32, 34, q8_0),
    "q6_k": Type(14, 256, 210, q6_k),
}
FILE_TYPES = {"f16": 1, "q4_0": 2, "q8_0": 7}  # general.file_type


def tensors_of(shape, form):
    """Name, type, dimensions (fastest first) and standard deviation of each."""
    d_model, kv_width, q_width = shape["d_model"], shape["kv_heads"] * shape["d_head"], shape["heads"] * shape["d_head"]
    embedding = form if form != "q4_0" else "q6_k" if d_model % 256 == 0 else "q8_0"

    def matrix(name, n_in, n_out):
        return (name, form, (n_in, n_out), 1 / math.sqrt(n_in))

    yield ("token_embd.weight", embedding, (d_model, shape["vocabulary"]), 1 / math.sqrt(d_model))
    yield ("output_norm.weight", "f32", (d_model,), 1.0)
    if shape["llama3"]:
        yield ("rope_freqs.weight", "f32", (shape["d_head"] // 2,), None)
    for layer in range(shape["layers"]):
        block = f"blk.{layer}."
        yield (block + "attn_norm.weight", "f32", (d_model,), 1.0)
        yield matrix(block + "attn_q.weight", d_model, q_width)
        yield matrix(block + "attn_k.weight", d_model, kv_width)
        yield matrix(block + "attn_v.weight", d_model, kv_width)
        yield matrix(block + "attn_output.weight", q_width, d_model)
        if shape["bias"]:
            for name, width in (("q", q_width), ("k", kv_width), ("v", kv_width)):
                yield (f"{block}attn_{name}.bias", "f32", (width,), 0.01)
        yield (block + "ffn_norm.weight", "f32", (d_model,), 1.0)
        yield matrix(block + "ffn_gate.weight", d_model, shape["ffn"])
        yield matrix(block + "ffn_up.weight", d_model, shape["ffn"])
        yield matrix(block + "ffn_down.weight", shape["ffn"], d_model)


def llama3_divisors(shape, factor=32.0, trained=8192, low=1.0, high=4.0):
    """By how much each frequency is divided: not where a wave turns `high` times or more within `trained` tokens, by
    `factor` where it turns less than `low` times, smoothly between."""
    i = numpy.arange(shape["d_head"] // 2)
    turns = trained * shape["base"] ** (-2 * i / shape["d_head"]) / (2 * math.pi)
    kept = numpy.clip((turns - low) / (high - low), 0, 1)
    return (1 / (kept + (1 - kept) / factor)).astype("<f4")


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key, kind, value):
    packed = text(value) if kind == STRING else struct.pack("<I" if kind == U32 else "<f", value)
    return text(key) + struct.pack("<I", kind) + packed


def metadata(name, shape, form):
    arch = shape["arch"]
    entries = [
        entry("general.architecture", STRING, arch),
        entry("general.name", STRING, name + " with random weights"),
        entry("general.file_type", U32, FILE_TYPES[form]),
        entry("general.alignment", U32, ALIGNMENT),
        entry("tokenizer.ggml.model", STRING, "no_vocab"),
    ]
    for key, value in (("block_count", shape["layers"]), ("context_length", shape["context"]),
                       ("embedding_length", shape["d_model"]), ("feed_forward_length", shape["ffn"]),
                       ("attention.head_count", shape["heads"]), ("attention.head_count_kv", shape["kv_heads"]),
                       ("attention.key_length", shape["d_head"]), ("attention.value_length", shape["d_head"]),
                       ("rope.dimension_count", shape["d_head"]), ("vocab_size", shape["vocabulary"])):
        entries.append(entry(f"{arch}.{key}", U32, value))
    entries.append(entry(f"{arch}.rope.freq_base", F32, shape["base"]))
    entries.append(entry(f"{arch}.attention.layer_norm_rms_epsilon", F32, shape["eps"]))
    return entries


def padding(size):
    return b"\0" * (-size % ALIGNMENT)


def write(name, form, path):
    shape = SHAPES[name]
    tensors = list(tensors_of(shape, form))
    entries = metadata(name, shape, form)
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries)) + b"".join(entries)
    at = 0
    for tensor, kind, dimensions, _ in tensors:
        header += text(tensor) + struct.pack(f"<I{len(dimensions)}QIQ", len(dimensions), *dimensions, TYPES[kind].number, at)
        size = math.prod(dimensions) // TYPES[kind].elements * TYPES[kind].size
        at += size + len(padding(size))
    rng = numpy.random.Generator(numpy.random.SFC64(1))
    temporary = path + ".tmp"
    with open(temporary, "wb") as file:
        file.write(header + padding(len(header)))
        for tensor, kind, dimensions, std in tensors:
            blocks = llama3_divisors(shape) if std is None else TYPES[kind].blocks(rng, std, math.prod(dimensions))
            file.write(blocks.data)
            file.write(padding(blocks.nbytes))
    os.replace(temporary, path)


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in SHAPES or sys.argv[2] not in FILE_TYPES:
        shapes, formats = ", ".join(SHAPES), ", ".join(FILE_TYPES)
        sys.exit(f"scripts/write_gguf.py: expected SHAPE ({shapes}) FORMAT ({formats}) FILE")
    try:
        write(*sys.argv[1:])
    except OSError as error:
        sys.exit(f"scripts/write_gguf.py: {sys.argv[3]}: {error.strerror}, expected a file that can be written")


if __name__ == "__main__":
    main()
