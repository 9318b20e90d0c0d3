#!/usr/bin/env python3
"""Checks that a bench.json is whole: its context, its rows, and that every number in it can be used.

usage: scripts/check_results.py bench.json
"""
import json
import math
import sys

CONTEXT = [
    "schema", "version", "git_hash", "compiler", "highway", "host_id", "topology", "measured_caches_bytes", "affinity",
    "cgroup", "governor", "thp", "numa_balancing", "threads_default", "threads", "oddities", "load_before",
    "load_after", "date", "command", "quick", "complete", "rounds", "interference",
]
LIMITS = {"stream", "peak", "sync"}


def problems(path):
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    ours = document["context"]["ropeline"]
    for key in CONTEXT:
        if key not in ours:
            yield f"context.ropeline.{key}: missing"
    if ours["complete"] is not True:
        yield "context.ropeline.complete: the run was interrupted"
    if "host_name" in document["context"]:
        yield "context.host_name: names the machine"
    repetitions = {}
    families = set()
    for row in document["benchmarks"]:
        name = row["name"]
        families.add(name.split("/")[0])
        repetitions[name] = repetitions.get(name, 0) + 1
        if row.get("error_occurred"):
            yield f"{name}: {row.get('error_message')}"
        if not row.get("call_ns", 0) > 0:
            yield f"{name}: call_ns: {row.get('call_ns')}, expected more than 0"
        if name.split("/")[0] not in LIMITS and "angles_scalar" not in name and not row.get("roof", 0) > 0:
            yield f"{name}: roof: {row.get('roof')}, expected more than 0"
        for key, value in row.items():
            if isinstance(value, float) and not math.isfinite(value):
                yield f"{name}: {key}: {value}, expected a finite number"
    for name, count in repetitions.items():
        if count != ours["rounds"]:
            yield f"{name}: {count} repetitions, expected {ours['rounds']}"
    # Other libraries are in a run only where it was asked for them.
    # Steps are those of a model that was asked for.
    asked = (["peer"] if ours.get("peers") else []) + (["step"] if "--model" in ours["command"] else [])
    expected = set(ours["families"]) - ({"peer", "step"} - set(asked))
    for family in expected - families:
        yield f"{family}: no row of this family"


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: scripts/check_results.py bench.json")
    found = list(problems(sys.argv[1]))
    for problem in found:
        print(f"{sys.argv[1]}: {problem}", file=sys.stderr)
    if found:
        sys.exit(1)
    print(f"{sys.argv[1].rsplit('/', 1)[-1]}: valid")


main()
