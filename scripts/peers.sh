#!/usr/bin/env bash
# Other libraries beside our kernels, in one run: ggml from a prebuilt llama.cpp, OpenBLAS and oneDNN. Installs and builds
# what is missing, measures (a quarter of an hour; --quick: a third of that), checks our results against ggml's on the same
# inputs, and prints who is faster. The npm package @node-llama-cpp/linux-x64 goes to a folder outside this tree.
#
# usage: scripts/peers.sh [--ggml FOLDER | --prefix FOLDER] [--quick] [--out FOLDER] [--threads LIST] [--benchmark_…]
#   --ggml      a llama.cpp build of your own; nothing is downloaded
#   --prefix    where the npm package goes (default: $ROPELINE_PEERS, or ropeline/peers in $XDG_CACHE_HOME or ~/.cache)
#   --out       folder for bench.json and peer_test.log (default: results/<cpu>-<cores>c/peers)
#   --quick, --threads, --benchmark_…   as bench_all takes them
set -euo pipefail
start=$PWD
cd "$(dirname "$0")/.."

fail() { echo "scripts/peers.sh: $1" >&2; exit 1; }
usage() {
  echo "scripts/peers.sh: $1, expected [--ggml FOLDER | --prefix FOLDER] [--quick] [--out FOLDER] [--threads LIST] [--benchmark_…]" >&2
  exit 2
}
# A folder as the caller sees it.
from_start() { (cd "$start" && realpath -m -- "$1"); }

ggml='' out='' bench=(--families peer) prefix=${ROPELINE_PEERS:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/ropeline/peers}
while [ $# -gt 0 ]; do
  case $1 in
    --ggml | --prefix | --out | --threads) [ -n "${2:-}" ] || usage "$1: nothing after it" ;;&
    --ggml) ggml=$(from_start "$2"); shift ;;
    --prefix) prefix=$2; shift ;;
    --out) out=$(from_start "$2"); bench+=(--out "$out"); shift ;;
    --threads) bench+=(--threads "$2"); shift ;;
    --quick | --benchmark_*) bench+=("$1") ;;
    -h | --help) sed -n '2,10s/^# \{0,1\}//p' scripts/peers.sh; exit 0 ;;
    *) usage "$1: no such flag" ;;
  esac
  shift
done
prefix=$(from_start "$prefix")
[ -z "$ggml" ] || [ -d "$ggml" ] || usage "--ggml: $ggml: no such folder"

[ -n "$ggml" ] || ggml=$(./scripts/install_llama.sh --prefix "$prefix")
./scripts/setup.sh
./scripts/build.sh bench_all ropeline peer_test
# OpenBLAS and oneDNN are to choose their kernels for this CPU themselves.
unset OPENBLAS_CORETYPE ONEDNN_MAX_CPU_ISA DNNL_MAX_CPU_ISA

printf '\n# Measuring\n\n'
./build/bench_all --ggml "$ggml" "${bench[@]}"

machine=(${out:+--machine "$out/bench.json"})
result=$(./build/ropeline compare --peers --json "${machine[@]}" |
  /usr/bin/python3 -c 'import json, sys; print(json.load(sys.stdin)["inputs"]["machine"]["source"])')

printf '\n# Our results against theirs, on the same inputs\n\n'
agree=0
ROPELINE_GGML=$ggml ./build/peer_test >"${result%/*}/peer_test.log" 2>&1 || agree=$?
tail -n 5 "${result%/*}/peer_test.log"
echo
./build/ropeline compare --peers "${machine[@]}"
printf '\nResults: %s and peer_test.log beside it\n' "$result"
[ "$agree" -eq 0 ] || fail "our results and ggml's differ or could not be compared, see ${result%/*}/peer_test.log"
