#!/usr/bin/env bash
# Installs what ropeline needs from Debian's packages and picks the compiler by measurement. Safe to run twice.
# Works as root and, elsewhere, through sudo.
#
# usage: scripts/setup.sh [--no-compiler-choice] [--fuzz]
#   --fuzz   Clang's sanitizers and libFuzzer too, for scripts/fuzz_smoke.sh; always where CI is true
set -euo pipefail
cd "$(dirname "$0")/.."

choose=1
fuzz=0
[ "${CI:-}" != true ] || fuzz=1
for word in "$@"; do
  case $word in
    --no-compiler-choice) choose=0 ;;
    --fuzz) fuzz=1 ;;
    *) echo "scripts/setup.sh: $word: no such flag, expected --no-compiler-choice or --fuzz" >&2; exit 2 ;;
  esac
done

packages=(
  ca-certificates git cmake ninja-build pkg-config ccache
  g++ clang-14 clang-16 clang-19 clang-format-14
  libhwy-dev libbenchmark-dev libhwloc-dev libfmt-dev nlohmann-json3-dev libcli11-dev libgtest-dev
  python3 python3-numpy python3-scipy python3-matplotlib
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
