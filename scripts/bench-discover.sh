#!/usr/bin/env bash
# make bench-discover: loads the same events into a separate firn and, if OPENSEARCH_URL is set, into a real OpenSearch
# beside it; then measures the stages of Discover over HTTP, and in a browser (console/e2e). Writes
# bench/results/discover.{json,md} and discover-browser.json.
#   BENCH_EVENTS=N     number of events (5000000)
#   BENCH_TENANTS=N    number of tenants (200)
#   BENCH_DATA=DIR     store firn's data there; completely loaded indices are not loaded again
#   BENCH_NAME=NAME    bench/results/NAME.{json,md} instead of discover
#   BENCH_FLAGS=...    further options of `firn bench discover`
#   BENCH_BROWSER=no   skip the browser
set -euo pipefail
cd "$(dirname "$0")/.."
firn=${CARGO_TARGET_DIR:-target}/release/firn
name=bench/results/${BENCH_NAME:-discover}
read -r -a flags <<< "${BENCH_FLAGS:-}"
folder=$(mktemp -d)
trap 'kill "${server:-0}" 2>/dev/null; wait 2>/dev/null; rm -rf "$folder"' EXIT
"$firn" serve --port 0 --data "${BENCH_DATA:-$folder/data}" --ready-file "$folder/ready" 2>"$folder/log" &
server=$!
until [ -s "$folder/ready" ]; do kill -0 "$server" || { cat "$folder/log" >&2; exit 1; }; sleep 0.1; done
url=$(head -n 1 "$folder/ready")
events=(--events "${BENCH_EVENTS:-5000000}" --tenants "${BENCH_TENANTS:-200}" --weeks 4)
mkdir -p bench/results
"$firn" bench layout --load-only --url "$url" --subjects own ${OPENSEARCH_URL:+--vs "$OPENSEARCH_URL" --vs-subjects daily} \
  ${BENCH_DATA:+--reuse} "${events[@]}" > "$folder/loaded"
"$firn" bench discover --url "$url" ${OPENSEARCH_URL:+--vs "$OPENSEARCH_URL"} "${events[@]}" \
  --json "$name.json" --markdown "$name.md" ${flags[@]+"${flags[@]}"}
[ "${BENCH_BROWSER:-}" = no ] || FIRN_URL=$url BENCH_NAME=${BENCH_NAME:-discover}-browser scripts/bench-console.sh
