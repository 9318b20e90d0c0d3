#!/usr/bin/env bash
# Every test once more with Clang's address and undefined-behaviour sanitizers, in build-asan/. About 25 minutes on two
# cores. On x86 the kernels are built for AVX2 alone: with all six targets one of their files takes 7 GB to compile.
# usage: scripts/test_sanitized.sh [flags of ctest]
set -euo pipefail
cd "$(dirname "$0")/.."
./scripts/setup.sh --fuzz --no-compiler-choice
one_target=()
# HWY_DISABLED_TARGETS: SSE2, SSSE3, SSE4, AVX3 and AVX3_DL, the bits of hwy/detect_targets.h.
[ "$(uname -m)" != x86_64 ] || one_target=("-DCMAKE_CXX_FLAGS=-march=haswell -DHWY_DISABLED_TARGETS=22912")
cmake --preset asan -DCMAKE_CXX_COMPILER="${CXX:-clang++-19}" -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1" "${one_target[@]}" >/dev/null
cmake --build build-asan
export ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
ctest --test-dir build-asan --output-on-failure -j "$(nproc)" "$@"
