#!/usr/bin/env bash
# Fuzzes every target of fuzz/ for a while, from the seeds in fuzz/corpus, and fails on the first finding.
#
# usage: scripts/fuzz_smoke.sh [SECONDS]   all targets together; default 60
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
case $seconds in
  '' | *[!0-9]*) echo "scripts/fuzz_smoke.sh: $seconds: is no number of seconds, expected such as 60" >&2; exit 2 ;;
esac
compiler=${CXX:-clang++-19}

cmake -S . -B build-fuzz -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DROPELINE_FUZZ=ON -DROPELINE_BUILD_TESTS=OFF \
  -DROPELINE_BUILD_BENCH=OFF >/dev/null
mapfile -t targets < <(cd fuzz && ls fuzz_*.cc | sed 's/\.cc$//')
cmake --build build-fuzz --target "${targets[@]}"

found=$(mktemp -d)
for target in "${targets[@]}"; do
  name=${target#fuzz_}
  mkdir -p "$found/$name"
  words=()
  [ ! -f "fuzz/$name.dict" ] || words=("-dict=fuzz/$name.dict")
  echo "== $target"
  # New inputs go to a folder of their own; the seeds stay as they are.
  "build-fuzz/fuzz/$target" -max_total_time=$((seconds / ${#targets[@]})) -timeout=30 -rss_limit_mb=1024 \
    -artifact_prefix="$found/" -print_final_stats=1 "${words[@]}" "$found/$name" "fuzz/corpus/$name" 2>&1 |
    grep -E "DONE|ERROR|SUMMARY|stat::(number_of_executed_units|peak_rss_mb)" ||
    { echo "scripts/fuzz_smoke.sh: $target found something; the input is in $found" >&2; exit 1; }
  if [ -n "$(find "$found" -maxdepth 1 -type f)" ]; then
    echo "scripts/fuzz_smoke.sh: $target found something; the input is in $found" >&2
    exit 1
  fi
done
rm -rf "$found"
