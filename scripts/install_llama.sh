#!/usr/bin/env bash
# Puts a prebuilt llama.cpp, the npm package @node-llama-cpp/linux-x64 (or -arm64), into a folder outside this tree and
# prints that package's folder, the only line on standard output. Nothing is downloaded where it is there already.
#
# usage: scripts/install_llama.sh [--prefix FOLDER]
#   --prefix   where it goes (default: $ROPELINE_PEERS, or ropeline/peers in $XDG_CACHE_HOME or ~/.cache)
set -euo pipefail

version=3.22.1  # the ggml and libllama in it were tried

fail() { echo "scripts/install_llama.sh: $1" >&2; exit 1; }
usage() { echo "scripts/install_llama.sh: $1, expected [--prefix FOLDER]" >&2; exit 2; }

prefix=${ROPELINE_PEERS:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/ropeline/peers}
while [ $# -gt 0 ]; do
  case $1 in
    --prefix) [ -n "${2:-}" ] || usage "--prefix: nothing after it"; prefix=$2; shift ;;
    -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) usage "$1: no such flag" ;;
  esac
  shift
done
prefix=$(realpath -m -- "$prefix")
cd "$(dirname "$0")/.."

case $(uname -m) in
  x86_64) package=@node-llama-cpp/linux-x64 ;;
  aarch64) package=@node-llama-cpp/linux-arm64 ;;
  *) fail "no prebuilt llama.cpp is known for $(uname -m), expected --ggml FOLDER" ;;
esac
folder=$prefix/node_modules/$package
if grep -qs "\"version\": \"$version\"" "$folder/package.json"; then
  echo "llama.cpp: $package $version is in $prefix" >&2
else
  command -v npm >/dev/null || ./scripts/setup.sh --no-compiler-choice --with npm >&2 || true
  command -v npm >/dev/null || fail "npm is missing and could not be installed, expected it or --ggml FOLDER"
  echo "llama.cpp: installing $package $version in $prefix" >&2
  mkdir -p "$prefix" 2>/dev/null || fail "$prefix cannot be written to, expected another --prefix FOLDER"
  log=$(mktemp)
  if ! npm install --prefix "$prefix" --no-audit --no-fund --fetch-retries=1 "$package@$version" >"$log" 2>&1; then
    fail "npm could not install $package $version ($(sed -n 's/^npm \(error\|ERR!\) code //p' "$log" | head -1); all of it: $log), expected a network, or --ggml FOLDER with a llama.cpp build"
  fi
  rm -f "$log"
fi
echo "$folder"
