#!/usr/bin/env python3
"""How far predictions of an engine's deep rows are from its own measurements: calibrates on shallow rows, predicts the rest.

usage: scripts/engine_errors.py ROPELINE FOLDER [--max-context N] [--machine bench.json] [--profiles FOLDER] [--max-error X]

FOLDER holds runs <model>-<weight format>.jsonl, as scripts/engine_check.sh leaves them. Standard output is a Markdown table of
the rows that no fit saw. --profiles keeps the calibrated <model>-<weight format>.engine.json there. Exit code 1: decode at the
deepest depth of some run is off by more than X per cent.
"""
import argparse
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile


def fail(reason):
    print(f"scripts/engine_errors.py: {reason}", file=sys.stderr)
    sys.exit(2)


def ropeline(program, *arguments):
    done = subprocess.run([program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        fail(f"ropeline {arguments[0]}: {done.stderr.strip() or 'exit code ' + str(done.returncode)}")
    return done.stdout


def rows_of(options, run, profiles):
    """Rows of `ropeline validate --json`, with the run's name."""
    name = os.path.basename(run)[:-len(".jsonl")]
    model = name.rpartition("-")[0]
    profile = os.path.join(profiles, name + ".engine.json")
    machine = ["--machine", options.machine] if options.machine else []
    ropeline(options.ropeline, "calibrate", run, "--model", model, "--max-context", str(options.max_context), *machine, "-o",
             profile)
    found = json.loads(ropeline(options.ropeline, "validate", run, "--engine", profile, "--json"))
    for warning in found["warnings"]:
        print(f"scripts/engine_errors.py: {name}: {warning}", file=sys.stderr)
    return [{**row, "run": name} for row in found["rows"] if not row["used_in_fit"]]


def label(row):
    return f"pp{row['n_prompt']}" if row["phase"] == "pp" else "tg"


def inside(row):
    return row["low_ms"] <= row["measured_ms"] <= row["high_ms"]


def table(rows):
    yield "| model | threads | row | depth | measured, ms per token | predicted | 90 % range | error | in range |"
    yield "|:--|--:|:--|--:|--:|--:|--:|--:|:--|"
    for row in rows:
        yield (f"| {row['run']} | {row['threads']} | {label(row)} | {row['n_kv']:,} | {row['measured_ms']:.3f} | "
               f"{row['predicted_ms']:.3f} | {row['low_ms']:.3f} to {row['high_ms']:.3f} | {100 * row['error']:+.1f} % | "
               f"{'yes' if inside(row) else 'no'} |")


def percentile(values, share):
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    below = int(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (at - below) * (ordered[above] - ordered[below])


def summary(what, rows):
    errors = [100 * abs(row["error"]) for row in rows]
    return (f"{what}: {len(rows)} rows, |error| {statistics.median(errors):.1f} % median, {percentile(errors, 0.9):.1f} % at the "
            f"90th percentile, {max(errors):.1f} % at worst; {sum(map(inside, rows))} lie in their range")


def deepest_decode(rows):
    """Of each run and number of threads, the deepest row of decode."""
    deepest = {}
    for row in rows:
        key = (row["run"], row["threads"])
        if row["phase"] == "tg" and row["n_kv"] >= deepest.get(key, row)["n_kv"]:
            deepest[key] = row
    return list(deepest.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ropeline")
    parser.add_argument("folder")
    parser.add_argument("--max-context", type=int, default=1024, metavar="N")
    parser.add_argument("--machine", metavar="bench.json")
    parser.add_argument("--profiles", metavar="FOLDER")
    parser.add_argument("--max-error", type=float, metavar="X")
    options = parser.parse_args()
    runs = sorted(glob.glob(os.path.join(options.folder, "*.jsonl")))
    if not runs:
        fail(f"{options.folder}: has no run, expected files <model>-<weight format>.jsonl")
    with tempfile.TemporaryDirectory() as temporary:
        rows = [row for run in runs for row in rows_of(options, run, options.profiles or temporary)]
    deepest = deepest_decode(rows)
    if not deepest:
        fail(f"{options.folder}: has no row of decode deeper than {options.max_context}, expected some to predict")
    print(f"Calibrated on rows to depth {options.max_context:,}; these are the deeper ones, which no fit saw.\n")
    print("\n".join(table(rows)), end="\n\n")
    for what, chosen in (("Decode", [row for row in rows if row["phase"] == "tg"]),
                         ("Prefill", [row for row in rows if row["phase"] == "pp"]),
                         ("Decode at the deepest depth of each run", deepest)):
        if chosen:
            print(summary(what, chosen), end="\n\n")
    worst = max(100 * abs(row["error"]) for row in deepest)
    if options.max_error is not None and worst > options.max_error:
        print(f"scripts/engine_errors.py: decode at the deepest depth is off by {worst:.1f} %, expected {options.max_error:g} % "
              "at most", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
