#!/usr/bin/env bash
# make bench-layout: loads the same events in several layouts into a separate firn and, if OPENSEARCH_URL is set, into a
# real OpenSearch (one node, 4 GB heap) beside it; then sends the same searches to all. Writes
# bench/results/layout.{json,md,html}.
#   BENCH_EVENTS=N     number of events (5000000)
#   BENCH_TENANTS=N    number of tenants (200)
#   BENCH_DATA=DIR     store firn's data there; completely loaded indices are not loaded again
#   BENCH_NAME=NAME    bench/results/NAME.{json,md,html} instead of layout
#   BENCH_FLAGS=...    further options of `firn bench layout`
set -euo pipefail
cd "$(dirname "$0")/.."
firn=${CARGO_TARGET_DIR:-target}/release/firn
name=bench/results/${BENCH_NAME:-layout}
read -r -a flags <<< "${BENCH_FLAGS:-}"
folder=$(mktemp -d)
trap 'kill "${server:-0}" 2>/dev/null; wait 2>/dev/null; rm -rf "$folder"' EXIT
"$firn" serve --port 0 --data "${BENCH_DATA:-$folder/data}" --ready-file "$folder/ready" 2>"$folder/log" &
server=$!
until [ -s "$folder/ready" ]; do kill -0 "$server" || { cat "$folder/log" >&2; exit 1; }; sleep 0.1; done
mkdir -p bench/results
"$firn" bench layout --url "$(head -n 1 "$folder/ready")" ${OPENSEARCH_URL:+--vs "$OPENSEARCH_URL"} \
  ${BENCH_DATA:+--reuse} --events "${BENCH_EVENTS:-5000000}" --tenants "${BENCH_TENANTS:-200}" \
  --json "$name.json" --markdown "$name.md" --html "$name.html" ${flags[@]+"${flags[@]}"}
