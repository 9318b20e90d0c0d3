#!/usr/bin/env python3
"""Times a prebuilt llama.cpp (libllama, through its C interface) on a GGUF file and writes rows as llama-bench does.

usage: scripts/time_llama.py --lib FOLDER MODEL.gguf >rows.jsonl

Standard output has one JSON object per row, with llama-bench's keys: decode at each depth, prefill of 512 tokens at each
depth, and whole prompts. All samples of a row are kept; avg_ns and avg_ts are those of the median sample, because on a
virtual machine the mean follows the neighbours. samples_steal_ms: what the hypervisor took from all CPUs meanwhile; samples
from which it took more than a hundredth do not count where there are three others. stddev_ns and stddev_ts are of those that
count, from their median deviation: one sample of a neighbour's says nothing of how sure the median is.

The cache is filled once, which gives rows of prefill at each multiple of 512. Then all depths and numbers of threads take
turns within a repetition, the deepest first: what is compared over depths was measured within seconds, not minutes apart,
between which a shared machine changes by more than the cache costs. Whole prompts are fed 512 tokens at a time. Tokens are
random; the last one's logits are computed, and no token is drawn from them.
"""
import argparse
import ctypes
import datetime
import glob
import json
import os
import random
import statistics
import sys
import time

STEP = 512  # tokens that prefill takes at a time: llama.cpp's default ubatch
CACHE_TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q8_0": 8, "bf16": 30}
TICKS = os.sysconf("SC_CLK_TCK")


def fail(reason):
    sys.exit(f"scripts/time_llama.py: {reason}")


class ModelParams(ctypes.Structure):
    """llama_model_params, taken as the library makes it. Longer than it is: such structures are passed in memory."""
    _fields_ = [("all", ctypes.c_uint64 * 64)]


class ContextParams(ctypes.Structure):
    """llama_context_params of the version that scripts/peers.sh installs. What follows type_v is left as it is."""
    _fields_ = [("n_ctx", ctypes.c_uint32), ("n_batch", ctypes.c_uint32), ("n_ubatch", ctypes.c_uint32),
                ("n_seq_max", ctypes.c_uint32), ("of_outputs", ctypes.c_uint32 * 3), ("n_threads", ctypes.c_int32),
                ("n_threads_batch", ctypes.c_int32), ("context_type", ctypes.c_int32), ("rope_scaling_type", ctypes.c_int32),
                ("pooling_type", ctypes.c_int32), ("attention_type", ctypes.c_int32), ("flash_attn_type", ctypes.c_int32),
                ("of_rope", ctypes.c_float * 8), ("cb_eval", ctypes.c_void_p), ("cb_eval_data", ctypes.c_void_p),
                ("type_k", ctypes.c_int32), ("type_v", ctypes.c_int32), ("rest", ctypes.c_uint64 * 50)]

    # What the library itself fills in: tells another version's layout from this one.
    DEFAULTS = {"n_ctx": 512, "n_batch": 2048, "n_ubatch": 512, "n_seq_max": 1, "context_type": 0, "rope_scaling_type": -1,
                "pooling_type": -1, "attention_type": -1, "flash_attn_type": -1, "cb_eval": None, "type_k": 1, "type_v": 1}


class Batch(ctypes.Structure):
    _fields_ = [("n_tokens", ctypes.c_int32), ("token", ctypes.c_void_p), ("embd", ctypes.c_void_p), ("pos", ctypes.c_void_p),
                ("n_seq_id", ctypes.c_void_p), ("seq_id", ctypes.c_void_p), ("logits", ctypes.c_void_p)]


LOG = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
HANDLE, INT, TEXT = ctypes.c_void_p, ctypes.c_int32, ctypes.c_char_p
FUNCTIONS = {  # result, arguments
    "llama_model_default_params": (ModelParams,),
    "llama_context_default_params": (ContextParams,),
    "llama_log_set": (None, LOG, HANDLE),
    "llama_version": (TEXT,),
    "llama_model_load_from_file": (HANDLE, TEXT, ModelParams),
    "llama_init_from_model": (HANDLE, HANDLE, ContextParams),
    "llama_free": (None, HANDLE),
    "llama_model_free": (None, HANDLE),
    "llama_model_desc": (INT, HANDLE, TEXT, ctypes.c_size_t),
    "llama_model_size": (ctypes.c_uint64, HANDLE),
    "llama_model_n_params": (ctypes.c_uint64, HANDLE),
    "llama_model_get_vocab": (HANDLE, HANDLE),
    "llama_vocab_n_tokens": (INT, HANDLE),
    "llama_n_ctx": (ctypes.c_uint32, HANDLE),
    "llama_n_ubatch": (ctypes.c_uint32, HANDLE),
    "llama_set_n_threads": (None, HANDLE, INT, INT),
    "llama_get_memory": (HANDLE, HANDLE),
    "llama_memory_clear": (None, HANDLE, ctypes.c_bool),
    "llama_memory_seq_rm": (ctypes.c_bool, HANDLE, INT, INT, INT),
    "llama_state_seq_get_size": (ctypes.c_size_t, HANDLE, INT),
    "llama_state_seq_get_data": (ctypes.c_size_t, HANDLE, HANDLE, ctypes.c_size_t, INT),
    "llama_state_seq_set_data": (ctypes.c_size_t, HANDLE, HANDLE, ctypes.c_size_t, INT),
    "llama_batch_get_one": (Batch, HANDLE, INT),
    "llama_decode": (INT, HANDLE, Batch),
    "llama_get_logits_ith": (ctypes.POINTER(ctypes.c_float), HANDLE, INT),
    "llama_synchronize": (None, HANDLE),
}


class Library:
    def __init__(self, folder):
        def load(pattern):
            found = sorted(glob.glob(os.path.join(folder, pattern))) or sorted(
                glob.glob(os.path.join(folder, "**", pattern), recursive=True))
            if not found:
                fail(f"{folder}: has no {pattern}, expected the folder of a prebuilt llama.cpp")
            try:
                return ctypes.CDLL(found[0], mode=ctypes.RTLD_GLOBAL), os.path.dirname(found[0])
            except OSError as error:
                fail(f"{found[0]}: cannot be loaded ({error}), expected a library for this system")

        base, home = load("libggml-base*.so")
        ggml, _ = load("libggml.*so")
        llama, _ = load("libllama.*so")
        for name, (result, *arguments) in FUNCTIONS.items():
            function = getattr(llama, name, None)
            if function is None:
                fail(f"{folder}: libllama has no {name}, expected the version that scripts/peers.sh installs")
            function.restype, function.argtypes = result, arguments
            setattr(self, name[len("llama_"):], function)
        base.ggml_commit.restype = TEXT
        self.version = f"{self.text(llama.llama_version())} {self.text(base.ggml_commit())}"
        self.messages = []
        self.log = LOG(lambda level, message, _: self.messages.append(self.text(message).strip()) if level >= 3 else None)
        llama.llama_log_set(self.log, None)
        ggml.ggml_backend_load_all_from_path(home.encode())
        defaults = llama.llama_context_default_params()
        for name, value in ContextParams.DEFAULTS.items():
            if getattr(defaults, name) != value:
                fail(f"{folder}: libllama's {name} is {getattr(defaults, name)} by default, not {value}: its structures are "
                     "others, expected the version that scripts/peers.sh installs")

    @staticmethod
    def text(data):
        return data.decode(errors="replace")

    def why(self):
        return "; ".join(self.messages[-3:]) or "it gives no reason"


class Engine:
    """A model and a cache of `n_ctx` tokens, of which the first `depth` are filled."""

    def __init__(self, library, path, n_ctx, options):
        self.library = library
        self.model = library.model_load_from_file(path.encode(), library.model_default_params())
        if not self.model:
            fail(f"{path}: llama.cpp does not load it: {library.why()}")
        params = library.context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = n_ctx, STEP, STEP
        params.flash_attn_type = options.flash_attention
        params.type_k, params.type_v = CACHE_TYPES[options.type_k], CACHE_TYPES[options.type_v]
        self.context = library.init_from_model(self.model, params)
        if not self.context:
            fail(f"{path}: llama.cpp makes no context for it: {library.why()}")
        if library.n_ubatch(self.context) != STEP or library.n_ctx(self.context) < n_ctx:
            fail(f"{path}: llama.cpp took another context than {n_ctx} tokens in steps of {STEP}")
        self.memory = library.get_memory(self.context)
        self.depth = 0
        self.random = random.Random(1)
        self.n_vocabulary = library.vocab_n_tokens(library.model_get_vocab(self.model))

    def close(self):
        self.library.free(self.context)
        self.library.model_free(self.model)

    def set_threads(self, threads):
        self.library.set_n_threads(self.context, threads, threads)

    def cut(self, depth):
        if depth == 0:
            self.library.memory_clear(self.memory, False)
        elif not self.library.memory_seq_rm(self.memory, 0, depth, -1):
            fail(f"llama.cpp cannot cut its cache back to {depth} tokens")
        self.depth = depth

    def keep(self):
        """Keeps what the cache holds, for restore()."""
        size = self.library.state_seq_get_size(self.context, 0)
        self.kept, self.kept_depth = ctypes.create_string_buffer(size), self.depth
        if self.library.state_seq_get_data(self.context, self.kept, size, 0) != size:
            fail("llama.cpp does not give its cache's content")

    def restore(self):
        if self.library.state_seq_set_data(self.context, self.kept, len(self.kept), 0) == 0:
            fail("llama.cpp does not take back its cache's content")
        self.depth = self.kept_depth

    def feed(self, n_tokens, at_once):
        """Nanoseconds for n_tokens more, `at_once` of them per call, and what was stolen meanwhile."""
        tokens = (ctypes.c_int32 * n_tokens)(*(self.random.randrange(self.n_vocabulary) for _ in range(n_tokens)))
        width, address = ctypes.sizeof(ctypes.c_int32), ctypes.addressof(tokens)
        stolen, start = steal_ms(), time.perf_counter_ns()
        for at in range(0, n_tokens, at_once):
            batch = self.library.batch_get_one(address + at * width, min(at_once, n_tokens - at))
            if self.library.decode(self.context, batch) != 0:
                fail(f"llama_decode failed at depth {self.depth + at}: {self.library.why()}")
            self.library.synchronize(self.context)
        elapsed = time.perf_counter_ns() - start
        self.depth += n_tokens
        return elapsed, steal_ms() - stolen

    def check_logits(self):
        """Random weights must give numbers: infinities would be timed as something else."""
        logits = self.library.get_logits_ith(self.context, -1)
        values = logits[:self.n_vocabulary]
        if not all(abs(value) < 1e6 for value in values) or len(set(values)) < 2:
            fail("the logits are no sensible numbers, expected a model whose activations stay finite")


def steal_ms():
    with open("/proc/stat") as file:
        fields = file.readline().split()
    return int(fields[8]) * 1000 / TICKS if len(fields) > 8 else 0.0


# A sample from which more was taken is one of the neighbours.
STOLEN = 0.01


def calm(samples):
    """Those that the hypervisor left alone, where they are enough."""
    alone = [sample for sample in samples if sample[1] * 1e6 <= STOLEN * sample[0]]
    return alone if len(alone) >= 3 else samples


def spread(values):
    """A standard deviation, were they normal; 0 of one."""
    middle = statistics.median(values)
    return 1.4826 * statistics.median(abs(value - middle) for value in values)


class Rows:
    """Samples by (n_prompt, n_gen, n_depth, threads), in the order in which rows came up."""

    def __init__(self):
        self.samples = {}

    def add(self, n_prompt, n_gen, n_depth, threads, sample):
        self.samples.setdefault((n_prompt, n_gen, n_depth, threads), []).append(sample)

    def write(self, settings, out):
        for (n_prompt, n_gen, n_depth, threads), samples in sorted(self.samples.items(), key=lambda row: (row[0][3], row[0])):
            times, stolen = zip(*samples)
            tokens = n_prompt + n_gen
            counted = [ns for ns, _ in calm(samples)]
            median = statistics.median(counted)
            row = {**settings, "n_threads": threads, "n_prompt": n_prompt, "n_gen": n_gen, "n_depth": n_depth,
                   "avg_ns": round(median), "stddev_ns": round(spread(counted)),
                   "avg_ts": round(tokens * 1e9 / median, 6),
                   "stddev_ts": round(spread([tokens * 1e9 / ns for ns in counted]), 6),
                   "samples_ns": times, "samples_ts": [round(tokens * 1e9 / ns, 6) for ns in times],
                   "samples_steal_ms": [round(ms) for ms in stolen]}
            print(json.dumps(row), file=out)


def fill(engine, depth, threads, rows):
    """Up to `depth`, timed in steps of 512 where a step begins at a multiple of it."""
    engine.set_threads(threads)
    while engine.depth < depth:
        n_tokens = min(STEP - engine.depth % STEP, depth - engine.depth)
        start = engine.depth
        sample = engine.feed(n_tokens, STEP)
        if n_tokens == STEP:
            rows.add(STEP, 0, start, threads, sample)


def time_prompts(engine, options, rows):
    """Whole prompts; the longest one's first steps are the shorter ones."""
    for threads in options.threads:
        engine.cut(0)
        engine.set_threads(threads)
        ns = stolen = 0
        for start in range(0, max(options.prompts), STEP):
            sample = engine.feed(STEP, STEP)
            rows.add(STEP, 0, start, threads, sample)
            ns, stolen = ns + sample[0], stolen + sample[1]
            if engine.depth in options.prompts and engine.depth > STEP:
                rows.add(engine.depth, 0, 0, threads, (ns, stolen))


def time_depths(engine, options, rows):
    """All depths in turn, from a cache that holds the deepest."""
    engine.keep()
    for repetition in range(max(options.repetitions, options.prefill_repetitions)):
        engine.restore()
        for depth in reversed(options.depths):
            for threads in options.threads:
                engine.set_threads(threads)
                for n_prompt, n_gen, repetitions in ((0, options.generate, options.repetitions),
                                                     (STEP, 0, options.prefill_repetitions)):
                    if repetition >= repetitions:
                        continue
                    engine.cut(depth)
                    if n_gen:  # wakes the threads
                        engine.feed(1, 1)
                        engine.cut(depth)
                    rows.add(n_prompt, n_gen, depth, threads, engine.feed(n_prompt + n_gen, STEP if n_prompt else 1))


def cpu_model():
    with open("/proc/cpuinfo") as file:
        return next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "")


def settings_of(engine, path, options):
    library, text = engine.library, ctypes.create_string_buffer(128)
    library.model_desc(engine.model, text, len(text))
    return {"build_commit": library.version, "cpu_info": cpu_model(), "gpu_info": "", "backends": "CPU",
            "model_filename": os.path.basename(path), "model_type": library.text(text.value),
            "model_size": library.model_size(engine.model), "model_n_params": library.model_n_params(engine.model),
            "n_batch": STEP, "n_ubatch": STEP, "type_k": options.type_k, "type_v": options.type_v, "n_gpu_layers": 0,
            "flash_attn": options.flash_attention, "use_mmap": True, "embeddings": False,
            "test_time": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")}


def counts(least, multiple):
    def parse(value):
        numbers = [int(number) for number in value.split(",")]
        if any(number < least or number % multiple for number in numbers):
            raise argparse.ArgumentTypeError(f"{value}: expected whole numbers from {least}, multiples of {multiple}")
        return sorted(set(numbers))
    return parse


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL.gguf")
    parser.add_argument("--lib", required=True, metavar="FOLDER", help="where libllama and libggml are")
    parser.add_argument("--depths", type=counts(0, 1), default=[0, 256, 512, 768, 1024, 4096, 8192],
                        metavar="LIST")
    parser.add_argument("--prompts", type=counts(STEP, STEP), default=[512, 4096], metavar="LIST", help="whole prompts")
    parser.add_argument("--threads", type=counts(1, 1), default=[1, 2], metavar="LIST")
    parser.add_argument("--generate", type=int, default=4, metavar="N", help="tokens of a sample of decode")
    parser.add_argument("--repetitions", type=int, default=12, metavar="N", help="samples of decode")
    parser.add_argument("--prefill-repetitions", type=int, default=0, metavar="N",
                        help="more samples of prefill at each depth, beside those from filling the cache")
    parser.add_argument("--flash-attention", type=int, choices=[0, 1], default=1)
    parser.add_argument("--type-k", choices=CACHE_TYPES, default="f16")
    parser.add_argument("--type-v", choices=CACHE_TYPES, default="f16", help="other than f16: with flash attention")
    return parser.parse_args()


def main():
    options = parse_options()
    library = Library(options.lib)
    engine = Engine(library, options.model, max(options.depths[-1] + STEP, options.prompts[-1]) + options.generate, options)
    settings = settings_of(engine, options.model, options)
    rows, started = Rows(), time.monotonic()

    def progress(what):
        print(f"time_llama: {time.monotonic() - started:6.1f} s  {what}", file=sys.stderr, flush=True)

    progress(f"{settings['model_type']}, llama.cpp {library.version}")
    engine.set_threads(options.threads[-1])
    engine.feed(STEP, STEP)  # pages of the file, and of what it is rearranged to, untimed
    engine.check_logits()
    time_prompts(engine, options, rows)
    progress(f"whole prompts to {options.prompts[-1]}")
    # The last whole prompt is the beginning of the cache.
    engine.cut(min(engine.depth, options.depths[-1]))
    fill(engine, options.depths[-1], options.threads[-1], rows)
    progress(f"cache filled to {engine.depth}")
    time_depths(engine, options, rows)
    progress(f"{options.repetitions} repetitions at {len(options.depths)} depths")
    engine.check_logits()
    rows.write(settings, sys.stdout)
    engine.close()


if __name__ == "__main__":
    main()
