"""What the plot scripts share: their command line, and the JSON that they draw, of `ropeline` itself or from a file."""
import os
import subprocess
import sys


class BadInput(Exception):
    """One line: file: key: what is wrong, what was expected."""


def parse(arguments, usage, prefix=None):
    """(prefix, file to read or None, flags of the sub-command)"""
    source, flags = None, []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word in ("-h", "--help"):
            print(usage.strip())
            sys.exit(0)
        if word in ("--out", "--from"):
            if not rest:
                raise BadInput(f"command line: {word}: has no value, expected {word} "
                               + ("PREFIX" if word == "--out" else "FILE"))
            if word == "--out":
                prefix = rest.pop(0)
            else:
                source = rest.pop(0)
        elif word != "--json":
            flags.append(word)
    if source is not None and flags:
        raise BadInput(f"command line: {flags[0]}: is given beside --from, expected one of the two")
    if source is None and not flags and not sys.stdin.isatty():
        source = "-"
    return prefix, source, flags


def run_ropeline(command, flags):
    """The JSON of that sub-command, as bytes."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    program = os.environ.get("ROPELINE", os.path.join(root, "build", "ropeline"))
    try:
        done = subprocess.run([program, command, "--json", *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        raise BadInput(f"{program}: {error.strerror}, expected the program that scripts/build.sh builds") from None
    if done.returncode != 0:
        raise BadInput(done.stderr.decode(errors="replace").strip() or f"{program}: exit code {done.returncode}")
    return done.stdout


def read(source):
    try:
        if source == "-":
            return sys.stdin.buffer.read()
        with open(source, "rb") as file:
            return file.read()
    except OSError as error:
        raise BadInput(f"{source}: cannot be read ({error.strerror}), expected a file") from None
