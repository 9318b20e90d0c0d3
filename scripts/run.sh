#!/usr/bin/env bash
# Everything in one command on a fresh machine: install, build, measure, predict, compare, draw.
# usage: scripts/run.sh [--full] [--out FOLDER]
#   --full   all rows and repetitions: 8 minutes of measuring instead of 90 s
#   --out    folder for bench.json instead of results/<cpu>-<cores>c
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { echo "scripts/run.sh: $1, expected [--full] [--out FOLDER]" >&2; exit 2; }
size=(--quick) out=() machine=()
while [ $# -gt 0 ]; do
  case $1 in
    --full) size=() ;;
    --out) [ $# -ge 2 ] || usage "--out: no folder"; out=(--out "$2"); machine=(--machine "$2/bench.json"); shift ;;
    -h | --help) sed -n '2,5s/^# //p' scripts/run.sh; exit 0 ;;
    *) usage "$1: no such flag" ;;
  esac
  shift
done

./scripts/setup.sh
./scripts/build.sh bench_all ropeline
printf '\n# Measuring\n\n'
./build/bench_all "${size[@]}" "${out[@]}"
printf '\n# This machine\n\n'
./build/ropeline topology "${machine[@]}"
echo
./build/ropeline predict llama-3.2-3b --context 32k --weights q4_k_m --kv f16 "${machine[@]}"
echo
./build/ropeline compare "${machine[@]}"
echo
# Beside bench.json: compare.png and compare.svg.
./build/ropeline compare --json "${machine[@]}" | /usr/bin/python3 scripts/plot_compare.py
