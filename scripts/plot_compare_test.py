#!/usr/bin/env python3
"""Runs scripts/plot_compare.py on a comparison and on bad input. Exit code 77: skipped, matplotlib is missing.

usage: scripts/plot_compare_test.py build/ropeline results
"""
import copy
import glob
import importlib.util
import json
import os
import struct
import subprocess
import sys
import tempfile
import xml.dom.minidom

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "plot_compare.py")


def run(arguments, text=b""):
    return subprocess.run([sys.executable, SCRIPT, *arguments], input=text, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)


def content(path):
    with open(path, "rb") as file:
        return file.read()


def main():
    if importlib.util.find_spec("matplotlib") is None:
        print("skipped: matplotlib is not installed, expected Debian's python3-matplotlib")
        sys.exit(77)
    program, results = sys.argv[1:]
    machine = sorted(glob.glob(os.path.join(results, "*", "bench.json")))[0]
    document = json.loads(subprocess.check_output([program, "compare", "--json", "--machine", machine]))
    # An encoding with nothing to do has no line on a log scale, and one that was refused has no points.
    for name, change in (("nothing", {"prefill_ms": 0.0}), ("refused", None)):
        entry = copy.deepcopy(document["curve"][-1])
        entry["encoding"] = name
        entry["points"] = [{**point, **change} for point in entry["points"]] if change else []
        document["curve"].append(entry)
    text = json.dumps(document).encode()
    with tempfile.TemporaryDirectory() as folder:
        first, second = os.path.join(folder, "first"), os.path.join(folder, "second")
        done = run(["--out", first], text)
        assert done.returncode == 0, done.stderr
        width, height = struct.unpack(">II", content(first + ".png")[16:24])
        assert width > 1000 and height > 500, (width, height)
        svg = content(first + ".svg").decode()
        xml.dom.minidom.parseString(svg)
        # Text is drawn as paths; matplotlib notes each in a comment.
        for entry in document["curve"]:
            assert f"<!-- {entry['encoding']}" in svg, entry["encoding"]
        assert "nothing: nothing to do" in svg and "refused: cannot take this shape" in svg
        assert document["inputs"]["model"] in svg and document["inputs"]["machine"]["cpu_model"] in svg
        source = os.path.join(folder, "compare.json")
        with open(source, "wb") as file:
            file.write(text)
        assert run(["--from", source, "--out", second]).returncode == 0
        assert content(first + ".svg") == content(second + ".svg"), "the picture must be the same each time"
        assert content(first + ".png") == content(second + ".png")

        empty = {**document, "curve": []}
        nan = copy.deepcopy(document)
        nan["curve"][0]["points"][0]["prefill_ms"] = float("nan")
        short = copy.deepcopy(document)
        del short["curve"][0]["points"][0]["n"]
        bad = os.path.join(folder, "bad")
        for arguments, given, part in (
                ([], b"", b"is empty"), ([], b"hello", b"is not JSON"), ([], b"[1]", b"curve: is missing"),
                ([], b"{}", b"curve: is missing"), ([], json.dumps(empty).encode(), b"no point above zero"),
                ([], json.dumps(nan).encode(), b"prefill_ms is nan"), ([], json.dumps(short).encode(), b"'n'"),
                (["--from", "/nowhere"], b"", b"/nowhere: cannot be read"), (["--from"], b"", b"--from: has no value"),
                (["--from", source, "--n", "1k"], b"", b"--n: is given beside --from")):
            done = run([*arguments, "--out", bad], given) if arguments != ["--from"] else run(arguments, given)
            assert done.returncode == 2, (arguments, given[:40], done)
            assert done.stderr.count(b"\n") == 1 and part in done.stderr, done.stderr
            assert done.stdout == b"" and not os.path.exists(bad + ".png") and not os.path.exists(bad + ".svg")
        done = run(["--out", "/nowhere/x"], text)
        assert done.returncode == 2 and b"/nowhere/x: cannot be written" in done.stderr, done
    print("plot_compare: all checks passed")


main()
