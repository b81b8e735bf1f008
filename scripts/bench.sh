#!/usr/bin/env bash
# make bench: loads a million web-log events into a separate firn and, if OPENSEARCH_URL is set, into a real
# OpenSearch (one node, 4 GB heap) beside it; then sends the same searches to both. It does so for the plain events and
# for a hostile profile. Writes bench/results/core.{json,md} and core-unique.{json,md}.
#   BENCH_EVENTS=N   number of events (1000000)
#   BENCH_PROFILES=  profiles of the events (plain unique); also uniform, zipf
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
url=$(head -n 1 "$folder/ready")
if [ -n "${BENCH_FILE:-}" ]; then profiles=(plain); else read -r -a profiles <<< "${BENCH_PROFILES:-plain unique}"; fi
files=()
for profile in "${profiles[@]}"; do
  case $profile in
    plain) file=bench/results/$name shape=() ;;
    *) file=bench/results/$name-$profile shape=(--profile "$profile") ;;
  esac
  files+=("$file.md")
  "$firn" bench core --url "$url" ${OPENSEARCH_URL:+--vs "$OPENSEARCH_URL"} --keep "${events[@]}" ${shape[@]+"${shape[@]}"} \
    --json "$file.json" --markdown "$file.md" ${flags[@]+"${flags[@]}"}
done
kill "$server"
wait "$server" || true
[ "$name" != core ] || "$firn" bench start --data "$folder/data" | tee bench/results/start.txt
cat "${files[@]}"
