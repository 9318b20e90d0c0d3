#!/usr/bin/env bash
# Do the tests notice? Breaks each encoding's kernel formula in a copy of the sources, one sign or term at a time, and
# requires that the kernel tests fail. Not part of the tests: it builds one kernel file per mutation.
# usage: scripts/mutation_check.sh
set -euo pipefail
cd "$(dirname "$0")/.."

# file | text of the formula | what it becomes
mutations=(
  'kernels/input_add.cc|return hn::Add(v, hn::LoadU(dv, p + i));|return hn::LoadU(dv, p + i);'
  'kernels/input_add.cc|return hn::Add(v, hn::LoadU(dv, p + i));|return v;'
  'kernels/angle_table.cc|hn::MulAdd(ca, sb, hn::Mul(sa, cb))|hn::Mul(ca, sb)'
  'kernels/angle_table.cc|hn::NegMulAdd(sa, sb, hn::Mul(ca, cb))|hn::MulAdd(sa, sb, hn::Mul(ca, cb))'
  'kernels/score_bias.cc|return hn::Add(v, hn::LoadU(dv, bias + k));|return hn::LoadU(dv, bias + k);'
  'kernels/score_bias.cc|hn::MulAdd(slope, kCausal ? distance|hn::MulAdd(slope, kCausal ? hn::Neg(distance)'
  'kernels/score_bias.cc|distance0 = hn::Add(distance0, step2);|distance0 = step2;'
  'kernels/score_bias.cc|distance1 = hn::Add(distance1, step2);|distance1 = distance1;'
  'kernels/qk_rotation.cc|hn::MulAdd(a, s, hn::Mul(b, c))|hn::Mul(b, c)'
  'kernels/qk_rotation.cc|hn::NegMulAdd(b, s, hn::Mul(a, c))|hn::MulAdd(b, s, hn::Mul(a, c))'
  'kernels/qk_rotation.cc|hn::MulAdd(x, cosine, hn::Mul(hn::Reverse2(d, x), sine))|hn::Mul(hn::Reverse2(d, x), sine)'
  'kernels/qk_rotation.cc|hn::OddEven(s, hn::Neg(s))|s'
)

compiler=${CXX:-$(cat build/compiler 2>/dev/null || echo c++)}
flags=(-std=c++20 -O1 -DNDEBUG -I. -DHWY_COMPILE_ALL_ATTAINABLE -DHWY_WANT_AVX3_DL=1 -DROPELINE_SOURCE_DIR=\".\")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/objects"
for source in kernels/*.cc; do printf '%s\0' "$source"; done |
  xargs -0 -P "$(nproc)" -I{} sh -c "'$compiler' ${flags[*]@Q} -c {} -o $work/objects/\$(basename {}).o"

missed=0
for mutation in "${mutations[@]}"; do
  IFS='|' read -r file from to <<<"$mutation"
  rm -rf "$work/tree"
  mkdir -p "$work/tree"
  cp -r kernels "$work/tree/"
  FROM=$from TO=$to /usr/bin/python3 - "$work/tree/$file" <<'PY'
import os, re, sys
path, start, end = sys.argv[1], os.environ["FROM"], os.environ["TO"]
text = open(path, encoding="utf-8").read()
# The formatter may have broken the line anywhere between words.
pattern = r"\s*".join(re.escape(word) for word in re.findall(r"\w+|[^\w\s]", start))
changed = re.sub(pattern, lambda _: end, text, count=1)
if changed == text:
    sys.exit(f"{path}: formula not found: {start}")
open(path, "w", encoding="utf-8").write(changed)
PY
  name=$(basename "$file")
  (cd "$work/tree" && "$compiler" "${flags[@]}" -w -c "$file" -o "$work/$name.o")
  objects=()
  for object in "$work"/objects/*.o; do [ "$(basename "$object")" = "$name.o" ] || objects+=("$object"); done
  "$compiler" "${objects[@]}" "$work/$name.o" -lhwy -lgtest -lgtest_main -lpthread -o "$work/test"
  if "$work/test" --gtest_brief=1 >"$work/log" 2>&1; then
    echo "NOT NOTICED  $file: $from -> $to"
    missed=$((missed + 1))
  else
    printf 'noticed      %-24s %s -> %s  (%s)\n' "$file" "$from" "$to" "$(grep -c 'FAILED  \]' "$work/log") tests fail"
  fi
done
[ "$missed" -eq 0 ] || { echo "$missed mutation(s) passed every test" >&2; exit 1; }
echo "all ${#mutations[@]} mutations are noticed"
