#!/usr/bin/env bash
# Builds the hot kernels with every compiler at hand, times them for a few seconds, and writes the fastest one's name to
# build/compiler. Keeps an earlier choice unless the compilers or the kernels changed, or --again is given.
# A set CXX is taken as it is.
#
# usage: scripts/choose_compiler.sh [--again]
set -euo pipefail
cd "$(dirname "$0")/.."

again=0
for word in "$@"; do
  case $word in
    --again) again=1 ;;
    *) echo "scripts/choose_compiler.sh: $word: no such flag, expected --again" >&2; exit 2 ;;
  esac
done

mkdir -p build
if [ -n "${CXX:-}" ]; then
  echo "compiler: $CXX (from CXX)"
  echo "$CXX" >build/compiler
  exit 0
fi

# What the probe times, and what that needs: not the attention kernels, which take minutes to compile and wait for memory.
sources=(bench/compiler_probe.cc)
for name in angle_table convert dtype input_add memory placement qk_rotation registry roofline rope_schedule row_name score_bias stream \
  targets; do
  sources+=("kernels/$name.cc")
done

compilers=()
for compiler in clang++-19 clang++-18 clang++-17 clang++-16 clang++-14 clang++ g++; do
  path=$(command -v "$compiler") || continue
  # The same program under two names is one compiler.
  real=$(readlink -f "$path")
  [[ " ${seen:-} " == *" $real "* ]] || compilers+=("$compiler")
  seen="${seen:-} $real"
done
[ ${#compilers[@]} -gt 0 ] || { echo "scripts/choose_compiler.sh: no C++ compiler, expected g++ or clang++" >&2; exit 1; }

stamp=$(for compiler in "${compilers[@]}"; do "$compiler" --version | head -1; done; cat "${sources[@]}" kernels/*.h | cksum)
if [ "$again" -eq 0 ] && [ -f build/compiler ] && [ "$stamp" = "$(cat build/compiler.stamp 2>/dev/null)" ]; then
  echo "compiler: $(cat build/compiler) (chosen before)"
  exit 0
fi

echo "compiler: building and timing the hot kernels with ${compilers[*]} (a minute or two)"
ccache=$(command -v ccache || true)
objects=build/compiler_probe
mkdir -p "$objects"
for compiler in "${compilers[@]}"; do
  for source in "${sources[@]}"; do
    printf '%s\0' "$ccache $compiler -std=c++20 -O2 -DNDEBUG -DHWY_COMPILE_ALL_ATTAINABLE -DHWY_WANT_AVX3_DL=1 -I. -c $source -o $objects/$compiler-$(basename "$source").o"
  done
done | xargs -0 -P "$(nproc)" -I{} sh -c '{}'
for compiler in "${compilers[@]}"; do
  made=()
  for source in "${sources[@]}"; do made+=("$objects/$compiler-$(basename "$source").o"); done
  "$compiler" "${made[@]}" -lhwy -o "$objects/probe-$compiler"
done

# Passes are interleaved, so that a busy moment falls on every compiler; the best of each counts, since noise only slows.
for pass in 1 2 3; do
  for compiler in "${compilers[@]}"; do
    "$objects/probe-$compiler" >"$objects/$compiler.$pass.txt"
  done
done
scores=(); most=0
for compiler in "${compilers[@]}"; do
  score=$(awk '$1 == "score" { if ($2 > most) most = $2 } END { print most }' "$objects/$compiler".[123].txt)
  printf 'compiler: %-12s %6.1f GB/s or GFLOP/s over the hot kernels (geometric mean; more is better)  %s\n' "$compiler" "$score" "$("$compiler" --version | head -1)"
  scores+=("$score")
  most=$(awk "BEGIN { print ($score > $most) ? $score : $most }")
done
# Within 5 % it is noise that decides: then the first in the list, which is the newest Clang, as Highway's authors recommend.
best=""
for i in "${!compilers[@]}"; do
  if [ -z "$best" ] && awk "BEGIN { exit !($most > 0 && ${scores[$i]} >= 0.95 * $most) }"; then best=${compilers[$i]}; fi
done
[ -n "$best" ] || { echo "scripts/choose_compiler.sh: no compiler's kernels could be timed" >&2; exit 1; }
echo "compiler: $best is taken: the fastest here, or within 5 % of it"
echo "$best" >build/compiler
echo "$stamp" >build/compiler.stamp
