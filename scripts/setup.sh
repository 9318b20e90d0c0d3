#!/usr/bin/env bash
# Installs what ropeline needs from Debian's packages and picks the compiler by measurement. Safe to run twice.
# Works as root and, elsewhere, through sudo.
#
# usage: scripts/setup.sh [--no-compiler-choice] [--fuzz] [--with PACKAGE]
#   --fuzz   Clang's sanitizers and libFuzzer too, for scripts/fuzz_smoke.sh; always where CI is true
#   --with   one more package than ropeline itself needs
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { echo "scripts/setup.sh: $1, expected [--no-compiler-choice] [--fuzz] [--with PACKAGE]" >&2; exit 2; }
choose=1 fuzz=0 more=()
[ "${CI:-}" != true ] || fuzz=1
while [ $# -gt 0 ]; do
  case $1 in
    --no-compiler-choice) choose=0 ;;
    --fuzz) fuzz=1 ;;
    --with) [ $# -ge 2 ] || usage "--with: no package"; more+=("$2"); shift ;;
    *) usage "$1: no such flag" ;;
  esac
  shift
done

packages=(
  ca-certificates git cmake ninja-build pkg-config ccache
  g++ clang-14 clang-16 clang-19 clang-format-14
  libhwy-dev libbenchmark-dev libhwloc-dev libfmt-dev nlohmann-json3-dev libsimdjson-dev libcli11-dev libgtest-dev
  libopenblas-dev libdnnl-dev
  python3 python3-numpy python3-scipy python3-matplotlib
  "${more[@]}"
)
[ "$fuzz" -eq 0 ] || packages+=(libclang-rt-19-dev)

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "scripts/setup.sh: this system has no apt; install these or their like, then run cmake --preset release:" >&2
  echo "  ${packages[*]}" >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "setup: all ${#packages[@]} packages are installed"
else
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "scripts/setup.sh: not root and no sudo; install: ${missing[*]}" >&2; exit 1; }
    as_root=(sudo)
  fi
  echo "setup: installing ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

[ "$choose" -eq 0 ] || ./scripts/choose_compiler.sh
