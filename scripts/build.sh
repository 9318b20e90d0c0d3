#!/usr/bin/env bash
# Configures and builds in build/ with the compiler that scripts/setup.sh chose.
# usage: [ROPELINE_CMAKE_FLAGS=…] scripts/build.sh [TARGET …]
set -euo pipefail
cd "$(dirname "$0")/.."
compiler=$(cat build/compiler 2>/dev/null || echo "${CXX:-c++}")
# CMake keeps the compiler it was first given: another one needs a fresh cache.
if [ -f build/CMakeCache.txt ] && ! grep -q "^CMAKE_CXX_COMPILER:[A-Z]*=.*/$compiler\$" build/CMakeCache.txt; then
  rm -rf build/CMakeCache.txt build/CMakeFiles
fi
# shellcheck disable=SC2086  # several flags are several words
cmake --preset release -DCMAKE_CXX_COMPILER="$compiler" ${ROPELINE_CMAKE_FLAGS:-} >build/configure.log || { cat build/configure.log >&2; exit 1; }
cmake --build build ${1:+--target "$@"}
