#!/usr/bin/env bash
# make bench: a million web-log events into a firn of its own and, where OPENSEARCH_URL names one, into a real
# OpenSearch (one node, 4 GB heap) beside it. Writes bench/results/core.{json,md}.
set -euo pipefail
cd "$(dirname "$0")/.."
firn=${CARGO_TARGET_DIR:-target}/release/firn
folder=$(mktemp -d)
trap 'kill "${server:-0}" 2>/dev/null; wait 2>/dev/null; rm -rf "$folder"' EXIT
"$firn" serve --port 0 --data "$folder/data" --ready-file "$folder/ready" 2>"$folder/log" &
server=$!
until [ -s "$folder/ready" ]; do kill -0 "$server" || { cat "$folder/log" >&2; exit 1; }; sleep 0.1; done
mkdir -p bench/results
"$firn" bench core --url "$(head -n 1 "$folder/ready")" ${OPENSEARCH_URL:+--vs "$OPENSEARCH_URL"} --keep \
  --events "${BENCH_EVENTS:-1000000}" --json bench/results/core.json --markdown bench/results/core.md
kill "$server"
wait "$server" || true
"$firn" bench start --data "$folder/data" | tee bench/results/start.txt
cat bench/results/core.md
