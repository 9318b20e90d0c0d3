#!/usr/bin/env bash
# Predictions beside a real engine: times a prebuilt llama.cpp on models of real shapes with random weights, calibrates on its
# rows to depth 1,024, predicts the deeper ones and prints the errors. Installs and builds what is missing. llama.cpp (a npm
# package) and the models (7 GB) go outside this tree. Takes about three quarters of an hour; wants a machine at rest.
#
# usage: scripts/engine_check.sh [--ggml FOLDER | --prefix FOLDER] [--gguf FOLDER] [--models LIST] [--quick]
#                                [--threads LIST] [--machine bench.json] [--out FOLDER] [--again]
#   --ggml      a llama.cpp of your own, of the version that scripts/install_llama.sh names; nothing is downloaded
#   --prefix    where the npm package goes, as in scripts/peers.sh
#   --gguf      where the models go (default: ropeline/gguf in $XDG_CACHE_HOME or ~/.cache); those there are not written again
#   --models    such as llama-3.2-1b:q8_0,qwen2.5-0.5b:f16 (default: both in f16, q8_0 and q4_0)
#   --threads   such as 1,2 (the default); --depths, --prompts, --repetitions, --prefill-repetitions, --flash-attention, --type-k
#               and --type-v also go to scripts/time_llama.py, whose --help has them
#   --quick     one small model, shallow, calibrated to depth 256: shows that it works, not how well
#   --machine   results whose limits bound the rates (default: the newest of this host, if any)
#   --out       folder for runs, profiles and errors.md (default: results/engines/<cpu>-<cores>c, named as the newest results
#               of this host; a temporary one with --quick)
#   --again     times nothing: profiles and errors anew from the runs that are in --out
# A program ropeline that $ROPELINE names is used as it is; nothing is built then.
set -euo pipefail
start=$PWD
cd "$(dirname "$0")/.."

fail() { echo "scripts/engine_check.sh: $1" >&2; exit 1; }
usage() { echo "scripts/engine_check.sh: $1, expected what --help shows" >&2; exit 2; }
from_start() { (cd "$start" && realpath -m -- "$1"); }

gguf=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/ropeline/gguf
ggml='' prefix=() models='' machine='' out='' again=0 size=() timing=() max_context=1024 quick=0
while [ $# -gt 0 ]; do
  case $1 in
    --ggml | --prefix | --gguf | --models | --machine | --out | --threads | --depths | --prompts | --repetitions | \
      --prefill-repetitions | --flash-attention | --type-k | --type-v)
      [ -n "${2:-}" ] || usage "$1: nothing after it" ;;&
    --ggml) ggml=$(from_start "$2"); shift ;;
    --prefix) prefix=(--prefix "$(from_start "$2")"); shift ;;
    --gguf) gguf=$2; shift ;;
    --models) models=${2//,/ }; shift ;;
    --threads | --depths | --prompts | --repetitions | --prefill-repetitions | --flash-attention | --type-k | --type-v)
      timing+=("$1" "$2"); shift ;;
    --machine) machine=$(from_start "$2"); shift ;;
    --out) out=$(from_start "$2"); shift ;;
    --quick) quick=1 ;;
    --again) again=1 ;;
    -h | --help) sed -n '2,20s/^# \{0,1\}//p' scripts/engine_check.sh; exit 0 ;;
    *) usage "$1: no such flag" ;;
  esac
  shift
done
gguf=$(from_start "$gguf")
[ -z "$ggml" ] || [ -d "$ggml" ] || usage "--ggml: $ggml: no such folder"
[ -z "$machine" ] || [ -f "$machine" ] || usage "--machine: $machine: no such file"
default='llama-3.2-1b:q8_0 llama-3.2-1b:q4_0 llama-3.2-1b:f16 qwen2.5-0.5b:q8_0 qwen2.5-0.5b:q4_0 qwen2.5-0.5b:f16'
if [ "$quick" -eq 1 ]; then
  default=qwen2.5-0.5b:q8_0 max_context=256
  size=(--depths "0,128,256,512,1024" --prompts 512 --generate 4 --repetitions 3 --prefill-repetitions 1)
fi
models=${models:-$default}
for model in $models; do
  [[ $model =~ ^[a-z0-9.-]+:(f16|q8_0|q4_0)$ ]] || usage "--models: '$model' is no SHAPE:f16, SHAPE:q8_0 or SHAPE:q4_0"
done

if [ -n "${ROPELINE:-}" ]; then
  ropeline=$(cd "$start" && realpath -- "$ROPELINE")
  [ -x "$ropeline" ] || fail "$ROPELINE, which ROPELINE names, is no program"
  ./scripts/setup.sh --no-compiler-choice
else
  ./scripts/setup.sh
  ./scripts/build.sh ropeline
  ropeline=$PWD/build/ropeline
fi

# The results of this host that ropeline finds by itself, if any: their limits, and the name of their folder.
if [ -z "$machine" ]; then
  machine=$("$ropeline" predict llama-3.2-1b --context 1k --json 2>/dev/null |
    /usr/bin/python3 -c 'import json, sys; print(json.load(sys.stdin)["inputs"]["machine"]["source"] or "")' 2>/dev/null) || machine=''
  [ -f "$machine" ] || machine=''
fi
if [ -z "$out" ] && [ "$quick" -eq 1 ]; then
  out=$(mktemp -d)
elif [ -z "$out" ]; then
  [ -n "$machine" ] || fail "no results of this host give their folder a name, expected --out FOLDER, or scripts/run.sh first"
  out=$PWD/results/engines/$(basename "$(dirname "$machine")")
fi
# A profile names the run that it is of, and the results that it is bound by: not with this tree's place.
machine=${machine#"$PWD/"}
out=${out#"$PWD/"}
mkdir -p "$out"

if [ "$again" -eq 0 ]; then
  [ -n "$ggml" ] || ggml=$(./scripts/install_llama.sh "${prefix[@]}")
  mkdir -p "$gguf" 2>/dev/null || fail "$gguf cannot be written to, expected another --gguf FOLDER"
  for model in $models; do
    shape=${model%:*} format=${model#*:}
    file=$gguf/$shape-$format.gguf run=$out/$shape-$format.jsonl
    printf '\n# %s, %s\n\n' "$shape" "$format"
    [ -f "$file" ] || /usr/bin/python3 scripts/write_gguf.py "$shape" "$format" "$file"
    "$ropeline" inspect "$file"
    echo
    /usr/bin/python3 scripts/time_llama.py --lib "$ggml" "${size[@]}" "${timing[@]}" "$file" >"$run.tmp"
    mv "$run.tmp" "$run"
  done
fi

printf '\n# Predicted against measured\n\n'
/usr/bin/python3 scripts/engine_errors.py "$ropeline" "$out" --max-context "$max_context" ${machine:+--machine "$machine"} \
  --profiles "$out" | tee "$out/errors.md"
printf 'Runs, profiles and errors.md: %s\n' "$out"
