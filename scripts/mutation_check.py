#!/usr/bin/env python3
"""Do the tests notice? Breaks each kernel formula in a copy of the sources, one sign or term at a time, and requires that
the kernel tests fail. Not part of the tests: it builds a kernel file for each mutation.

usage: scripts/mutation_check.py [WORD …]    only mutations whose file or text holds one of the words
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# file, text of the formula, what it becomes; for a header, the source that is built with it.
MUTATIONS = [
    # input add
    ("input_add.cc", "hn::Add(LoadF32(dv, e + j + i), LoadF32(dv, p + j + i))", "LoadF32(dv, e + j + i)"),
    ("input_add.cc", "StorePair(hn::Add(e0, p0), hn::Add(e1, p1)", "StorePair(hn::Add(e0, p0), hn::Add(e1, p0)"),
    ("input_add.cc", "RowOf<T>(position, t, d_model), run * d_model", "RowOf<T>(position, 0, d_model), run * d_model"),
    ("lanes-inl.h", "hn::Add(v, LoadF32(dv, b + i + j))", "v", "input_add.cc"),
    ("lanes-inl.h", "StorePair(hn::Add(x0, b0), hn::Add(x1, b1)", "StorePair(hn::Add(x0, b0), x1", "input_add.cc"),
    ("angle_table.cc", "hn::MulAdd(ca, sb, hn::Mul(sa, cb))", "hn::Mul(ca, sb)"),
    ("angle_table.cc", "hn::NegMulAdd(sa, sb, hn::Mul(ca, cb))", "hn::MulAdd(sa, sb, hn::Mul(ca, cb))"),
    ("angle_table.cc", "factors[i] * (c - s * rest)", "(c - s * rest)"),
    # score bias
    ("score_bias.cc", "hn::MulAdd(slope, kCausal ? distance", "hn::MulAdd(slope, kCausal ? hn::Neg(distance)"),
    ("score_bias.cc", "hn::Neg(hn::Abs(distance))", "hn::Abs(distance)"),
    ("score_bias.cc", "distance0 = hn::Add(distance0, step2);", "distance0 = step2;"),
    ("score_bias.cc", "distance1 = hn::Add(distance1, step2);", "distance1 = distance1;"),
    ("score_bias.cc", "first = hn::Sub(first, one)", "first = hn::Add(first, one)"),
    ("score_bias.cc", "++t, row += n_k, --bias)", "++t, row += n_k)"),
    ("score_bias.cc", "++t, row += n_k, from += n_k)", "++t, row += n_k)"),
    ("score_bias.cc", "hn::LoadU(di, bucket + k)", "hn::LoadU(di, bucket)"),
    ("score_bias.cc", "-r1 * std::log1p(r2 * distance)", "-r1 * std::log1p(distance)"),
    ("score_bias.cc", "-r1 * std::pow(distance, r2)", "r1 * std::pow(distance, r2)"),
    ("score_bias.cc", "2 * i / kWidth", "i / kWidth"),
    ("score_bias.cc", "(sum - kWidth / 2) / compression", "(sum - kWidth / 2) * compression"),
    ("score_bias.cc", "psi(std::max(query, net.threshold))", "psi(net.threshold)"),
    ("score_bias.cc", "std::max(0.0, net.in_weight[i] * x + net.in_bias[i])", "(net.in_weight[i] * x + net.in_bias[i])"),
    ("score_bias.cc", "std::exp2(-8.0 *", "std::exp2(-4.0 *"),
    ("score_bias.cc", "octaves * (count - exact)", "octaves * count"),
    # rotation
    ("rotate-inl.h", "hn::NegMulAdd(b, s, hn::Mul(a, c)), d, q + at(v)", "hn::MulAdd(b, s, hn::Mul(a, c)), d, q + at(v)",
     "qk_rotation.cc"),
    ("rotate-inl.h", "hn::MulAdd(a, s, hn::Mul(b, c)), d, q + half", "hn::Mul(b, c), d, q + half", "qk_rotation.cc"),
    ("rotate-inl.h", "hn::MulAdd(a_odd, so, hn::Mul(b_odd, co))", "hn::MulAdd(a_odd, se, hn::Mul(b_odd, co))", "qk_rotation.cc"),
    ("rotate-inl.h", "hn::MulAdd(x, cosine, hn::Mul(hn::Reverse2(d, x), sine))", "hn::Mul(hn::Reverse2(d, x), sine)",
     "qk_rotation.cc"),
    ("rotate-inl.h", "hn::OddEven(s, hn::Neg(s))", "s", "qk_rotation.cc"),
    ("rotate-inl.h", "StorePair(hn::NegMulAdd(b, s, hn::Mul(a, c)),", "StorePair(hn::MulAdd(b, s, hn::Mul(a, c)),", "qk_rotation.cc"),
    ("rotate-inl.h", "s0 = hn::Xor(s0, flip), s1 = hn::Xor(s1, flip), s2 = hn::Xor(s2, flip), s3 = hn::Xor(s3, flip);", "",
     "qk_rotation.cc"),
    ("rotate-inl.h", "hn::Xor(hn::DupOdd(angle), flip)", "hn::DupOdd(angle)", "qk_rotation.cc"),
    ("rotate-inl.h", "heads.out + h * heads.out_stride + d_rot", "heads.out + h * heads.out_stride", "qk_rotation.cc"),
    ("qk_rotation.cc", "r.table + row * r.d_rot", "r.table + t * r.d_rot"),
    ("qk_rotation.cc", "in + t * r.in.token_stride", "in + t * r.out.token_stride"),
    ("qk_rotation.cc", "static_cast<double>(d_rot) + kGamma) / (1 + kGamma)", "static_cast<double>(d_rot) + kGamma)"),
    ("qk_rotation.cc", "BuildRows(kKind, bands, shape, -1,", "BuildRows(kKind, bands, shape, 1,"),
    ("qk_rotation.cc", "i < time + height ? 1 : 2", "i < time + height ? 2 : 1"),
    ("qk_rotation.cc", "axis == 0 ? position / kPatchesPerRow", "axis == 0 ? position"),
    ("qk_rotation.cc", "DefaultInvFreq(d_rot / 2, kBase)", "DefaultInvFreq(d_rot, kBase)"),
    ("qk_rotation.cc", "shape.positions[t] - *least", "shape.positions[t]"),
    ("qk_rotation.cc", "row_heads, shape.n_heads + shape.n_kv_heads, tables.q", "row_heads, row_heads, tables.q"),
    # conversions
    ("convert-inl.h", "hn::Add(hn::Add(bits, hn::Set(du, 0x7fff)), odd)", "hn::Add(bits, hn::Set(du, 0x8000))", "convert.cc"),
    ("convert-inl.h", "hn::Or(lower, hn::And(upper, hn::Set(d16, 1)))", "lower", "input_add.cc"),
    ("convert-inl.h", "hn::ShiftRight<13>(hn::Add(shifted, odd))", "hn::ShiftRight<13>(shifted)", "convert.cc"),
    ("convert-inl.h", "hn::IfThenElse(less(113u << 23), small, normal)", "normal", "convert.cc"),
    ("convert-inl.h", "hn::Ge(scaled, hn::Set(d, 65536.0f))", "hn::Ge(scaled, hn::Set(d, 1e30f))", "convert.cc"),
    ("convert.cc", "h * out.head_stride", "h * in.head_stride"),
    # attention
    ("exp-inl.h", "hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), hn::Set(d, 1.0f))", "hn::Add(r, hn::Set(d, 1.0f))",
     "decode_attention.cc"),
    ("softmax-inl.h", "state->weights *= factor;", "", "decode_attention.cc"),
    ("softmax-inl.h", "hn::NegMulAdd(cap, half, cap)", "hn::Mul(cap, half)", "prefill_attention.cc"),
    ("softmax-inl.h", "hn::Add(score, hn::LoadU(d, row_ + i))", "score", "prefill_attention.cc"),
    ("softmax-inl.h", "hn::Lt(at, high), s, hidden", "hn::Le(at, high), s, hidden", "prefill_attention.cc"),
    ("softmax-inl.h", "hn::Ge(at, sinks)", "hn::Gt(at, sinks)", "prefill_attention.cc"),
    ("kv_whole_product-inl.h", "hn::Mul(scale, hn::Set(d, -8.0f))", "hn::Zero(d)", "decode_attention.cc"),
    ("kv_whole_product-inl.h", "-8 * out.steps[at] * hn::GetLane", "8 * out.steps[at] * hn::GetLane", "decode_attention.cc"),
    ("kv_nibble_product-inl.h", "-8 * out.steps[at] * static_cast", "8 * out.steps[at] * static_cast", "decode_attention.cc"),
    ("kv_nibble_product-inl.h", "{0, 4, 1, 5, 2, 6, 3, 7}", "{0, 1, 2, 3, 4, 5, 6, 7}", "decode_attention.cc"),
    ("kv_nibble_product-inl.h", "add(c + 4, hn::ShiftRight<4>(word_low),", "add(c + 4, word_low,", "decode_attention.cc"),
    ("kv_nibble_product-inl.h", "{0, 8, 2, 10,", "{0, 2, 8, 10,", "decode_attention.cc"),
    ("kv_nibble_product-inl.h", "hn::Xor(hn::Add(hn::Load(d16, rows->numbers + i), half), half)", "hn::Load(d16, rows->numbers + i)",
     "decode_attention.cc"),
    ("kv_nibble_product-inl.h", "hn::ShiftLeft<8>(SumOfBytes(sums[1]))", "SumOfBytes(sums[1])", "decode_attention.cc"),
    ("kv_whole_product-inl.h", "out->steps[r] = largest[r] * largest_scale / kMostNumber", "out->steps[r] = largest[r] / kMostNumber",
     "decode_attention.cc"),
    ("decode_units.cc", "weights += factor * part(s)[d + 1]", "weights += part(s)[d + 1]"),
    ("decode_attention.cc", "from > start + b * kKvTile ? from - start - b * kKvTile : 0", "0"),
    ("prefill_attention.cc", "first_position + first;", "first_position;"),
    ("prefill_attention.cc", "keys[dimension * kKvTile + t] : 0", "keys[dimension * kKvTile] : 0"),
    # angles made in the call
    ("angle_ways.cc", "hn::NegMulAdd(s, step_s, hn::Mul(c, step_c))", "hn::Mul(c, step_c)"),
    ("angle_ways.cc", "t % kResynchronise == 0", "t == 0"),
    ("sincos-inl.h", "hn::ShiftLeft<30>(hn::And(quarter, hn::Set(di, 2)))", "hn::ShiftLeft<30>(hn::And(quarter, hn::Set(di, 0)))",
     "angle_ways.cc"),
    ("sincos-inl.h", "hn::MulAdd(r2, c, hn::Set(d, 1.0f / 24))", "hn::MulAdd(r2, c, hn::Set(d, 1.0f / 25))", "angle_ways.cc"),
    # scores in registers
    ("score_tile.cc", "low = hn::Add(of_lane, hn::Set(d, slope_ * distance))", "low = hn::Add(of_lane, hn::Set(d, distance))"),
    ("score_tile.cc", "hn::LoadU(d, row_ + k - q)", "hn::LoadU(d, row_ + k)"),
    ("score_tile.cc", "hn::LoadU(di, bucket_ + k - q)", "hn::LoadU(di, bucket_)"),
    ("score_tile.cc", "row_ + q * tiles_.n + k", "row_ + k"),
    ("score_tile.cc", "if (k + 2 * lanes <= q + 1)", "if (k + 2 * lanes <= q + 2)"),
    ("score_tile.cc", "tiles.angles + (q + r) * d_head", "tiles.angles + q * d_head"),
    ("score_tile.cc", "hn::Mul(hn::Set(dv, tiles.scale), hn::LoadU(dv, from + i))", "hn::LoadU(dv, from + i)"),
    # weights
    ("mat_vec.cc", "sums[0][i][r] = hn::Add(sums[0][i][r], sums[s][i][r])", "sums[0][i][r] = sums[0][i][r]"),
    ("mat_vec.cc", "rest = c; rest < cols", "rest = c + 1; rest < cols"),
    ("mat_vec.cc", "y + (from + i) * w.rows + row", "y + from * w.rows + row"),
    ("mat_vec.cc", "hn::Set(d32, -kFactor)", "hn::Set(d32, kFactor)"),
    ("mat_vec.cc", "return most / 127;", "return most / 128;"),
    ("mat_vec.cc", "std::memcpy(group->high + 16 * b, q + 16, 16)", "std::memcpy(group->high + 16 * b, q, 16)"),
    ("mat_vec.cc", "static_cast<int16_t>(SumOf<32>(q + 32 * j))", "static_cast<int16_t>(SumOf<32>(q))"),
    ("mat_vec.cc", "q + 128 * h + 32 * r, 32", "q + 32 * r, 32"),
    ("mat_vec_blocks-inl.h", "hn::Xor(w, hn::Set(DU8(), 0x80))", "w", "mat_vec.cc"),
    ("mat_vec_blocks-inl.h", "i % 16 / kLanes * (kBlockBytes / 2)", "0 * i", "mat_vec.cc"),
    ("mat_vec_blocks-inl.h", "sum = AddFours(sum, rows[r].high, high)", "sum = AddFours(sum, rows[r].low, high)", "mat_vec.cc"),
    ("mat_vec_blocks-inl.h", "rest * Format::kBlockBytes", "0", "mat_vec.cc"),
    ("mat_vec_k-inl.h", "(a >> 2) & 0x30303030u", "(b >> 2) & 0x30303030u", "mat_vec.cc"),
    ("mat_vec_k-inl.h", "(c >> 4) & 0x0f0f0f0fu", "c & 0x0f0f0f0fu", "mat_vec.cc"),
    ("mat_vec_k-inl.h", "hn::NegMulAdd(hn::ConvertTo(D4F(), products), factor, sum)", "sum", "mat_vec.cc"),
    ("mat_vec_k-inl.h", "hn::Set(D4F(), 32 * scaled)", "hn::Set(D4F(), 31 * scaled)", "mat_vec.cc"),
    ("mat_vec_k-inl.h", "hn::ShiftLeft<2>(bits16)", "hn::ShiftLeft<4>(bits16)", "mat_vec.cc"),
    ("mat_vec_k-inl.h", "p / 32 * 8 + 2 * r + p % 32 / 16", "p / 32 * 8 + 2 * r", "mat_vec.cc"),
    ("mat_vec_scalar-inl.h", "- 8", "- 7", "mat_vec.cc"),
    ("mat_mul.cc", "fresh ? hn::Zero(d) : hn::LoadU(d, sums", "hn::Zero(d); hn::LoadU(d, sums"),
    ("mat_mul.cc", "scratch.sums + t,", "scratch.sums,"),
    ("mat_mul.cc", "HWY_DYNAMIC_DISPATCH(PackPanel) (x + i * kTokens * cols_", "HWY_DYNAMIC_DISPATCH(PackPanel) (x"),
    ("mat_mul.cc", "y + t * w.rows", "y"),
    ("weight_unpack-inl.h", "start[2] = {-8 * d, -8 * d}", "start[2] = {-8 * d, 0}", "mat_mul.cc"),
    ("weight_unpack-inl.h", "(words[0] >> 2 & 0x30303030)", "(words[1] >> 2 & 0x30303030)", "mat_mul.cc"),
    ("weight_unpack-inl.h", "m = -F16At(block + 2)", "m = F16At(block + 2)", "mat_mul.cc"),
    ("weight_unpack-inl.h", "hn::ShiftRight<6>(upper), 6 + group", "hn::ShiftRight<4>(upper), 6 + group", "mat_mul.cc"),
    ("weight_unpack-inl.h", "hn::Sub(q, hn::Set(di, 32))", "q", "mat_mul.cc"),
    ("rms_norm.cc", "s1 = hn::MulAdd(x1, x1, s1)", "s1 = hn::MulAdd(x0, x0, s1)"),
    ("rms_norm.cc", "hn::Mul(scaled, hn::LoadU(dv, weight + i))", "scaled"),
    ("swiglu.cc", "hn::IfThenElse(hn::Lt(gate, hn::Zero(d)), e, one)", "one"),
    ("swiglu.cc", "hn::Mul(gate, up)", "gate"),
    ("residual.cc", "AddRow<false>(hn::ScalableTag<float>(), acc, x, elements, elements)",
     "AddRow<false>(hn::ScalableTag<float>(), acc, x, elements / 2, elements)"),
    ("sampling.cc", "before -= static_cast<double>(sums[i]);", ""),
    ("sampling.cc", "left -= static_cast<double>(weights[i]);", ""),
    ("sampling.cc", "hn::Sub(hn::LoadU(d, x), hn::Set(d, largest))", "hn::LoadU(d, x)"),
    ("sampling.cc", "m3 = hn::Max(hn::LoadU(d, x + i + 3 * lanes), m3)", "m3 = m3"),
]

ROOT = pathlib.Path(__file__).resolve().parent.parent
FLAGS = ["-std=c++20", "-O1", "-DNDEBUG", "-w", "-I.", "-DHWY_COMPILE_ALL_ATTAINABLE", "-DHWY_WANT_AVX3_DL=1",
         '-DROPELINE_SOURCE_DIR="."',
         # Some targets are enough to notice: the widest, one that converts f16 by hand, and the one without SIMD.
         "-DHWY_DISABLED_TARGETS=(HWY_AVX2|HWY_AVX3|HWY_SSSE3)"]
LIBRARIES = ["-lhwy", "-lgtest", "-lgtest_main", "-lpthread"]


def compiler():
    chosen = ROOT / "build" / "compiler"
    return os.environ.get("CXX") or (chosen.read_text().strip() if chosen.exists() else "c++")


def build(tree, source, target):
    subprocess.run([compiler(), *FLAGS, "-c", source, "-o", str(target)], cwd=tree, check=True)


def mutate(path, start, end):
    text = path.read_text(encoding="utf-8")
    # The formatter may have broken the line anywhere between words.
    pattern = r"\s*".join(re.escape(word) for word in re.findall(r"\w+|[^\w\s]", start))
    changed, count = re.subn(pattern, lambda _: end, text, count=1)
    if count == 0 or changed == text:
        sys.exit(f"kernels/{path.name}: formula not found: {start}")
    path.write_text(changed, encoding="utf-8")


def outcome(work, objects, index, mutation):
    name, start, end = mutation[:3]
    source = mutation[3] if len(mutation) > 3 else name
    place = pathlib.Path(work) / str(index)
    shutil.copytree(ROOT / "kernels", place / "kernels")
    mutate(place / "kernels" / name, start, end)
    build(place, f"kernels/{source}", place / "mutated.o")
    others = [str(path) for file, path in objects.items() if file != source]
    test = place / "test"
    subprocess.run([compiler(), *others, str(place / "mutated.o"), *LIBRARIES, "-o", str(test)], check=True)
    run = subprocess.run([str(test), "--gtest_brief=1"], capture_output=True, text=True, cwd=place, check=False)
    failed = len(re.findall(r"FAILED  \]", run.stdout))
    shutil.rmtree(place)
    return run.returncode != 0, failed


def main():
    words = sys.argv[1:] or [""]
    chosen = [m for m in MUTATIONS if any(word in m[0] or word in m[1] for word in words)]
    if not chosen:
        sys.exit(f"scripts/mutation_check.py: none of {words} is in any mutation's file or text")
    with tempfile.TemporaryDirectory() as work, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        sources = sorted(path.name for path in (ROOT / "kernels").glob("*.cc"))
        objects = {source: pathlib.Path(work) / f"{source}.o" for source in sources}
        list(pool.map(lambda s: build(ROOT, f"kernels/{s}", objects[s]), sources))
        runs = [pool.submit(outcome, work, objects, i, m) for i, m in enumerate(chosen)]
        missed = 0
        for mutation, run in zip(chosen, runs):
            noticed, failed = run.result()
            missed += not noticed
            print(f"{'noticed    ' if noticed else 'NOT NOTICED'}  {mutation[0]:<16} {mutation[1]} -> {mutation[2]}"
                  f"  ({failed} tests fail)", flush=True)
    if missed:
        sys.exit(f"{missed} mutation(s) passed every test")
    print(f"all {len(chosen)} mutations are noticed")


main()
