#!/usr/bin/env bash
# make bench: loads a million web-log events into a separate firn and, if OPENSEARCH_URL is set, into a real
# OpenSearch (one node, 4 GB heap) beside it; then sends the same searches to both. Writes bench/results/core.{json,md}.
#   BENCH_EVENTS=N   number of events (1000000)
#   BENCH_FILE=FILE  events from a file instead
#   BENCH_NAME=NAME  bench/results/NAME.{json,md} instead of core
#   BENCH_FLAGS=...  further options of `firn bench core`
set -euo pipefail
cd "$(dirname "$0")/.."
firn=${CARGO_TARGET_DIR:-target}/release/firn
name=${BENCH_NAME:-core}
if [ -n "${BENCH_FILE:-}" ]; then events=(--file "$BENCH_FILE"); else events=(--events "${BENCH_EVENTS:-1000000}"); fi
read -r -a flags <<< "${BENCH_FLAGS:-}"
folder=$(mktemp -d)
trap 'kill "${server:-0}" 2>/dev/null; wait 2>/dev/null; rm -rf "$folder"' EXIT
"$firn" serve --port 0 --data "$folder/data" --ready-file "$folder/ready" 2>"$folder/log" &
server=$!
until [ -s "$folder/ready" ]; do kill -0 "$server" || { cat "$folder/log" >&2; exit 1; }; sleep 0.1; done
mkdir -p bench/results
"$firn" bench core --url "$(head -n 1 "$folder/ready")" ${OPENSEARCH_URL:+--vs "$OPENSEARCH_URL"} --keep \
  "${events[@]}" --json "bench/results/$name.json" --markdown "bench/results/$name.md" ${flags[@]+"${flags[@]}"}
kill "$server"
wait "$server" || true
[ "$name" != core ] || "$firn" bench start --data "$folder/data" | tee bench/results/start.txt
cat "bench/results/$name.md"
