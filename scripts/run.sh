#!/usr/bin/env bash
# Everything in one command on a fresh machine: install, build, measure quickly, predict and compare.
# usage: scripts/run.sh [flags of bench_all, instead of --quick; --full for all rows]
set -euo pipefail
cd "$(dirname "$0")/.."

flags=("${@:---quick}")
[ "${1:-}" != --full ] || flags=("${@:2}")
./scripts/setup.sh
./scripts/build.sh bench_all ropeline

echo; echo "# This machine"; echo
./build/ropeline topology
echo; echo "# Measuring"; echo
./build/bench_all "${flags[@]+"${flags[@]}"}"
echo; echo "# A 3B model at 32k"; echo
./build/ropeline predict llama-3.2-3b --context 32k --weights q4_k_m --kv f16
echo; echo "# What each placement costs"; echo
./build/ropeline compare
