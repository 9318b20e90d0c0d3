#!/usr/bin/env bash
# Installs, builds and runs every test.
# usage: scripts/test.sh [flags of ctest]
set -euo pipefail
cd "$(dirname "$0")/.."
./scripts/setup.sh
./scripts/build.sh
ctest --test-dir build --output-on-failure -j "$(nproc)" "$@"
