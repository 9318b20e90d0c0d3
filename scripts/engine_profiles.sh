#!/usr/bin/env bash
# Profiles of engines from published runs, into results/engines/published/: llama.cpp before its CPU attention was tiled and
# split over the cache (one with, one without flash attention) and at later dates, ik_llama.cpp before and after its own.
# What is measured on this machine: scripts/engine_check.sh.
# usage: scripts/engine_profiles.sh [FOLDER OF RUNS]   default: sweeps in $ROPELINE_SHARED or ../shared
set -euo pipefail
start=$PWD
cd "$(dirname "$0")/.."
runs=${1:+$(cd "$start" && realpath -m -- "$1")}
runs=${runs:-${ROPELINE_SHARED:-../shared}/sweeps}
[ -d "$runs" ] || { echo "scripts/engine_profiles.sh: $runs: no such folder, expected the one with published runs" >&2; exit 2; }
out=results/engines/published
mkdir -p "$out"
while read -r name run; do
  build/ropeline calibrate "$runs/$run.json" --max-context 32768 -o "$out/$name.engine.json" >/dev/null
  echo "$out/$name.engine.json"
done <<'LIST'
llama.cpp-2025-04-qwen3-30b-7950x ik357-qwen3-30b-7950x-llamacpp-fa
llama.cpp-2025-05-nofa-qwen3-30b-7950x ik380-qwen3-30b-7950x-8t-llamacpp-nofa
llama.cpp-2025-09-qwen3-30b-7950x ik797-qwen3-30b-iq2xxs-7950x-llamacpp
llama.cpp-2026-08-qwen2.5-1.5b-graviton4 lcpp27086-qwen25-1.5b-graviton4-faon
ik_llama.cpp-2025-04-main-llama-3.1-8b-7950x ik351-llama31-8b-7950x-ik-main
ik_llama.cpp-2025-04-pr351-llama-3.1-8b-7950x ik351-llama31-8b-7950x-ik-pr
ik_llama.cpp-2025-08-qwen3-30b-9950x ik710-qwen3-30b-iq4kss-9950x-rtr-pr
LIST
