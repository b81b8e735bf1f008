#!/usr/bin/env bash
# make bench-console: measures in Chromium the time from pressing Enter in Discover to the first row on screen, against
# the server at FIRN_URL (http://127.0.0.1:9200), which must have the events. Options go to console/e2e/timing/main.mjs.
#   BENCH_INDEX=NAME   index with the events (bench-layout-own)
#   BENCH_NAME=NAME    bench/results/NAME.json instead of discover-browser
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/console.sh
name=bench/results/${BENCH_NAME:-discover-browser}
mkdir -p bench/results
node console/e2e/timing/main.mjs --url "${FIRN_URL:-http://127.0.0.1:9200}" --index "${BENCH_INDEX:-bench-layout-own}" --json "$name.json" "$@"
