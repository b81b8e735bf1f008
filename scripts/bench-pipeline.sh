#!/usr/bin/env bash
# make bench-pipeline: CPU time of parsing, mapping and look-ups, then of storing CEF lines in a separate firn and, if
# OPENSEARCH_URL is set, in a real OpenSearch (no security, one node) beside it.
#   GEOIP_CITY=FILE, GEOIP_ASN=FILE  MaxMind databases; without them nothing is looked up
#   BENCH_EVENTS=N                   events that are stored (300000)
set -euo pipefail
cd "$(dirname "$0")/.."
firn=${CARGO_TARGET_DIR:-target}/release/firn
flags=(--stored-events "${BENCH_EVENTS:-300000}")
[ -z "${GEOIP_CITY:-}" ] || flags+=(--geoip-city "$GEOIP_CITY")
[ -z "${GEOIP_ASN:-}" ] || flags+=(--geoip-asn "$GEOIP_ASN")
folder=$(mktemp -d)
trap 'kill "${server:-0}" 2>/dev/null; wait 2>/dev/null; rm -rf "$folder"' EXIT
"$firn" serve --port 0 --data "$folder/data" --ready-file "$folder/ready" 2>"$folder/log" &
server=$!
until [ -s "$folder/ready" ]; do kill -0 "$server" || { cat "$folder/log" >&2; exit 1; }; sleep 0.1; done
"$firn" bench pipeline "${flags[@]}" --no-original
echo
"$firn" bench pipeline "${flags[@]}" --url "$(head -n 1 "$folder/ready")" ${OPENSEARCH_URL:+--peer-url "$OPENSEARCH_URL"}
grep VmHWM "/proc/$server/status"
