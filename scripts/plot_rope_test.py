#!/usr/bin/env python3
"""Runs scripts/plot_rope.py on extensions and on bad input. Exit code 77: skipped, matplotlib is missing.

usage: scripts/plot_rope_test.py build/ropeline
"""
import copy
import importlib.util
import json
import os
import struct
import subprocess
import sys
import tempfile
import xml.dom.minidom

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "plot_rope.py")


def run(arguments, text=b"", program=""):
    return subprocess.run([sys.executable, SCRIPT, *arguments], input=text, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env={**os.environ, "ROPELINE": program})


def content(path):
    with open(path, "rb") as file:
        return file.read()


def changed(document, change):
    other = copy.deepcopy(document)
    change(other)
    return json.dumps(other).encode()


def check_pictures(folder, program, text):
    prefix = os.path.join(folder, "article")
    done = run(["--out", prefix], text)
    assert done.returncode == 0 and done.stderr == b"", done
    png, svg = content(prefix + ".png"), content(prefix + ".svg")
    width, height = struct.unpack(">II", png[16:24])
    assert png[:8] == b"\x89PNG\r\n\x1a\n" and width > 1000 and height > 600, (width, height)
    xml.dom.minidom.parseString(svg)
    for method in (b"YaRN", b"dynamic NTK", b"PI", b"llama3"):
        assert b"<!-- " + method + b" -->" in svg, method
    run(["--out", prefix + "2"], text)
    assert content(prefix + "2.svg") == svg, "the same input must give the same picture"
    # Few bands, one method, a model.
    few = os.path.join(folder, "few")
    done = run(["--out", few, "--d", "4", "--base", "100", "--train", "64", "--extend", "128", "--method", "pi"],
               program=program)
    assert done.returncode == 0 and os.path.exists(few + ".png"), done
    done = run(["--out", few, "llama-3.1-8b", "--extend", "128k"], program=program)
    assert done.returncode == 0, done


def check_bad_input(folder, document, text):
    source = os.path.join(folder, "rope.json")
    with open(source, "wb") as file:
        file.write(text)
    bad = os.path.join(folder, "bad")

    def still(other):
        for method in other["extend"]["methods"]:
            for band in method.get("bands", []):
                band["arc_train"] = 0

    cases = (([], b"", b"is empty"), ([], b"{", b"is not JSON"), ([], b"[]", b"extend: is missing"),
             ([], changed(document, lambda d: d.pop("extend")), b"extend: is missing"),
             ([], changed(document, lambda d: d["extend"]["methods"][0]["bands"][3].pop("unseen")), b"'unseen'"),
             ([], changed(document, lambda d: d["extend"]["methods"][0]["bands"][3].update(squeeze="x")), b"squeeze is 'x'"),
             ([], changed(document, lambda d: d["extend"].update(context=None)), b"holds no contexts"),
             ([], changed(document, still), b"none has bands"),
             (["--from", "/nowhere"], b"", b"/nowhere: cannot be read"),
             (["--from", source, "--extend", "1k"], b"", b"--extend: is given beside --from"))
    for arguments, given, part in cases:
        done = run([*arguments, "--out", bad], given)
        assert done.returncode == 2, (arguments, given[:40], done)
        assert done.stderr.count(b"\n") == 1 and part in done.stderr, done.stderr
        assert done.stdout == b"" and not os.path.exists(bad + ".png") and not os.path.exists(bad + ".svg")
    done = run(["--from"])
    assert done.returncode == 2 and b"--from: has no value" in done.stderr, done
    done = run(["--out", "/nowhere/x"], text)
    assert done.returncode == 2 and b"/nowhere/x: cannot be written" in done.stderr, done


def main():
    if importlib.util.find_spec("matplotlib") is None:
        print("skipped: matplotlib is not installed, expected Debian's python3-matplotlib")
        sys.exit(77)
    program = os.path.abspath(sys.argv[1])
    text = subprocess.check_output([program, "rope", "--d", "128", "--base", "10000", "--train", "4096", "--extend",
                                    "32k", "--json"])
    with tempfile.TemporaryDirectory() as folder:
        check_pictures(folder, program, text)
        check_bad_input(folder, json.loads(text), text)
    print("plot_rope: all checks passed")


main()
