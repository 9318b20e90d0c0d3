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

version=3.22.1  # of the npm package: the ggml in it was tried

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

# Puts the npm package under $prefix and its folder into $ggml.
install_package() {
  local package log
  case $(uname -m) in
    x86_64) package=@node-llama-cpp/linux-x64 ;;
    aarch64) package=@node-llama-cpp/linux-arm64 ;;
    *) fail "no prebuilt llama.cpp is known for $(uname -m), expected --ggml FOLDER" ;;
  esac
  ggml=$prefix/node_modules/$package
  if grep -qs "\"version\": \"$version\"" "$ggml/package.json"; then
    echo "peers: $package $version is in $prefix"
    return
  fi
  command -v npm >/dev/null || ./scripts/setup.sh --no-compiler-choice --with npm || true
  command -v npm >/dev/null || fail "npm is missing and could not be installed, expected it or --ggml FOLDER"
  echo "peers: installing $package $version in $prefix"
  mkdir -p "$prefix" 2>/dev/null || fail "$prefix cannot be written to, expected another --prefix FOLDER"
  log=$(mktemp)
  if ! npm install --prefix "$prefix" --no-audit --no-fund --fetch-retries=1 "$package@$version" >"$log" 2>&1; then
    fail "npm could not install $package $version ($(sed -n 's/^npm \(error\|ERR!\) code //p' "$log" | head -1); all of it: $log), expected a network, or --ggml FOLDER with a llama.cpp build"
  fi
  rm -f "$log"
}

[ -n "$ggml" ] || install_package
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
