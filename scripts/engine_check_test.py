#!/usr/bin/env python3
"""What scripts/engine_check.sh is made of, without an engine: models it writes, rows it prints, errors it counts, and the
committed runs. Exit code 77: skipped, numpy is missing.

usage: scripts/engine_check_test.py build/ropeline results
"""
import glob
import importlib.util
import json
import os
import struct
import subprocess
import sys
import tempfile

SCRIPTS = os.path.dirname(os.path.abspath(__file__))
# Decode at the deepest depth from rows to 1,024: what committed runs are predicted within, per cent. Asked were 8, which the
# curves' own bends do not allow (results/README.md).
MAX_ERROR = 40


def script(name, *arguments):
    return subprocess.run([sys.executable, os.path.join(SCRIPTS, name), *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)


def module(name):
    spec = importlib.util.spec_from_file_location(name, os.path.join(SCRIPTS, name + ".py"))
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def check_models(folder, program):
    sizes = {"f16": 2.0, "q8_0": 34 / 32, "q4_0": 18 / 32}
    for form, size in sizes.items():
        path = os.path.join(folder, f"tiny-{form}.gguf")
        done = script("write_gguf.py", "tiny", form, path)
        assert done.returncode == 0 and not os.path.exists(path + ".tmp"), done
        model = json.loads(subprocess.check_output([program, "inspect", "--json", path]))
        assert model["model"]["params_total"] == 918784, model["model"]
        embeddings, norms = 512 * 256, 5 * 256
        of_embedding = 210 / 256 if form == "q4_0" else size
        expected = (918784 - embeddings - norms) * size + embeddings * of_embedding + norms * 4
        # Beyond the tensors: a header of some KiB.
        assert 0 < os.path.getsize(path) - expected < 8192, (form, os.path.getsize(path), expected)
        check_scales(path, form)
    done = script("write_gguf.py", "tiny", "q5_0", os.path.join(folder, "x.gguf"))
    assert done.returncode != 0 and done.stderr.count("\n") == 1, done.stderr
    done = script("write_gguf.py", "tiny", "f16", os.path.join(folder, "none", "x.gguf"))
    assert done.returncode != 0 and done.stderr.count("\n") == 1, done.stderr


def check_scales(path, form):
    """The last matrix, 256 wide, has a standard deviation of 1/16: what `form` stores is decoded here by hand."""
    n = 256 * 256
    size = {"f16": 2 * n, "q8_0": n // 32 * 34, "q4_0": n // 32 * 18}[form]
    with open(path, "rb") as file:
        file.seek(-size, os.SEEK_END)
        data = file.read()
    if form == "f16":
        values = struct.unpack(f"<{n}e", data)
    elif form == "q8_0":
        values = [d * q for d, *block in struct.iter_unpack("<e32b", data) for q in block]
    else:
        values = [d * (q - 8) for d, *block in struct.iter_unpack("<e16B", data) for byte in block for q in (byte & 15, byte >> 4)]
    mean = sum(values) / n
    std = (sum((value - mean) ** 2 for value in values) / n) ** 0.5
    assert abs(mean) < 0.01 and abs(std * 16 - 1) < 0.05, (form, mean, std)


def check_llama3_divisors(writer):
    divisors = writer.llama3_divisors(writer.SHAPES["llama-3.2-1b"])
    # Published rope_freqs.weight: the first 14 of 32 are 1, the last 32.
    assert (divisors[:14] == 1).all() and (divisors[-12:] == 32).all(), divisors
    assert (divisors[1:] >= divisors[:-1]).all() and 1 < divisors[16] < 32, divisors


SETTINGS = {"build_commit": "0.5.0-dev 0ad4a86", "cpu_info": "Example CPU", "gpu_info": "", "backends": "CPU",
            "model_filename": "llama-3.2-1b-q8_0.gguf", "model_type": "llama 1B Q8_0", "model_size": 1313251456,
            "model_n_params": 1235814432, "n_batch": 512, "n_ubatch": 512, "type_k": "f16", "type_v": "f16", "n_gpu_layers": 0,
            "flash_attn": 1, "use_mmap": True, "embeddings": False, "test_time": "2026-01-01T00:00:00Z"}


def write_run(timer, path, deep_factor):
    """A straight curve, 50 ms and 16 µs more per token of depth at one thread; decode past 1,024 is `deep_factor` of that."""
    rows = timer.Rows()
    for threads in (1, 2):
        for depth in (0, 256, 512, 1024, 4096, 8192):
            step = (50e6 + 16e3 * (depth + 8)) / threads * (deep_factor if depth > 1024 else 1)
            token = (12e6 + 2e3 * (depth + 256)) / threads
            for off in (0.999, 1.0, 7.0):  # a neighbour's sample, which no median follows
                rows.add(0, 16, depth, threads, (16 * step * off, 0.0))
            rows.add(512, 0, depth, threads, (512 * token, 0.0))
    with open(path, "w") as out:
        rows.write(SETTINGS, out)


def check_errors(folder, program, timer):
    write_run(timer, os.path.join(folder, "llama-3.2-1b-q8_0.jsonl"), 1.0)
    with open(os.path.join(folder, "llama-3.2-1b-q8_0.jsonl")) as file:
        first = json.loads(file.readline())
    assert first["n_threads"] == 1 and first["n_gen"] == 16 and first["n_depth"] == 0 and len(first["samples_ns"]) == 3, first
    assert abs(first["avg_ts"] - 1e9 / (50e6 + 16e3 * 8)) < 1e-3, first
    done = script("engine_errors.py", program, folder, "--max-error", "2", "--profiles", folder)
    assert done.returncode == 0, done.stderr
    for row in ("| llama-3.2-1b-q8_0 | 1 | tg | 8,192 | 181.200 |", "| llama-3.2-1b-q8_0 | 2 | pp512 | 4,096 |", "Decode: 4 rows"):
        assert row in done.stdout, (row, done.stdout)
    assert "| 1,024 |" not in done.stdout, done.stdout
    with open(os.path.join(folder, "llama-3.2-1b-q8_0.engine.json")) as file:
        assert json.load(file)["max_context"] == 1024
    write_run(timer, os.path.join(folder, "llama-3.2-1b-q8_0.jsonl"), 2.0)
    done = script("engine_errors.py", program, folder, "--max-error", "2")
    assert done.returncode == 1 and "is off by" in done.stderr, (done.returncode, done.stderr)


def check_bad_input(folder, program):
    for arguments in ((program, folder), (program, os.path.join(folder, "none"))):
        done = script("engine_errors.py", *arguments)
        assert done.returncode == 2 and "has no run" in done.stderr, done
    with open(os.path.join(folder, "llama-3.2-1b-q8_0.jsonl"), "w") as file:
        file.write("no run\n")
    done = script("engine_errors.py", program, folder)
    assert done.returncode == 2 and "ropeline calibrate: " in done.stderr, done
    done = script("time_llama.py", "--lib", folder, "x.gguf")
    assert done.returncode == 1 and "has no libggml-base" in done.stderr, done
    done = script("time_llama.py", "--lib", folder, "x.gguf", "--prompts", "100")
    assert done.returncode == 2 and "multiples of 512" in done.stderr, done


def check_steps(timer):
    """A cache is filled in timed steps that begin at multiples of 512, whole prompts are sums of such steps, and depths take
    turns from one filled cache."""

    class FakeEngine:
        depth = 0
        cuts = []

        def set_threads(self, threads):
            self.threads = threads

        def feed(self, n_tokens, _):
            self.depth += n_tokens
            return n_tokens * 1000 // self.threads, 0.0

        def cut(self, depth):
            assert depth <= self.depth, "only what is there can be cut"
            self.depth = depth
            self.cuts.append(depth)

        def keep(self):
            self.kept = self.depth

        def restore(self):
            self.depth = self.kept

    class Options:
        prompts, threads, generate, repetitions, prefill_repetitions = [512, 1024], [1, 2], 4, 3, 1
        depths = [0, 300, 700]

    engine, rows = FakeEngine(), timer.Rows()
    engine.depth = 100
    timer.fill(engine, 1300, 1, rows)
    assert engine.depth == 1300 and list(rows.samples) == [(512, 0, 512, 1)], rows.samples
    rows = timer.Rows()
    timer.time_prompts(engine, Options, rows)
    assert rows.samples[(1024, 0, 0, 2)] == [(512000, 0.0)], rows.samples
    assert set(rows.samples) == {(512, 0, 0, 1), (512, 0, 512, 1), (1024, 0, 0, 1), (512, 0, 0, 2), (512, 0, 512, 2),
                                 (1024, 0, 0, 2)}, rows.samples
    rows = timer.Rows()
    engine.depth, engine.cuts = 700, []
    timer.time_depths(engine, Options, rows)
    assert list(dict.fromkeys(engine.cuts)) == [700, 300, 0], engine.cuts
    assert {key: len(samples) for key, samples in rows.samples.items()} == {
        (n_prompt, n_gen, depth, threads): count
        for n_prompt, n_gen, count in ((0, 4, 3), (512, 0, 1)) for depth in Options.depths for threads in (1, 2)}, rows.samples
    # Neighbours' samples do not count where three others are left.
    quiet, loud = (1e9, 5.0), (3e9, 600.0)
    assert timer.calm([quiet, loud, quiet, quiet]) == [quiet] * 3 and len(timer.calm([quiet, loud, quiet])) == 3
    assert timer.spread([5]) == 0 and abs(timer.spread([9, 10, 11, 700]) - 1.4826) < 1e-9


def check_committed(results, program):
    folders = sorted({os.path.dirname(path) for path in glob.glob(os.path.join(results, "engines", "*", "*-*.jsonl"))})
    for folder in folders:
        machine = os.path.join(results, os.path.basename(folder), "bench.json")
        bounds = ["--machine", machine] if os.path.exists(machine) else []
        done = script("engine_errors.py", program, folder, "--max-error", str(MAX_ERROR), *bounds)
        assert done.returncode == 0, (folder, done.stderr)
        print(f"{folder}\n\n{done.stdout}")


def main():
    if importlib.util.find_spec("numpy") is None:
        print("skipped: numpy is not installed, expected Debian's python3-numpy")
        sys.exit(77)
    program, results = sys.argv[1:]
    timer = module("time_llama")
    check_llama3_divisors(module("write_gguf"))
    check_steps(timer)
    for check, argument in ((check_models, [program]), (check_bad_input, [program]), (check_errors, [program, timer])):
        with tempfile.TemporaryDirectory() as folder:
            check(folder, *argument)
    check_committed(results, program)


if __name__ == "__main__":
    main()
