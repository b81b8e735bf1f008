#!/usr/bin/env bash
# make run: builds firn if a source changed, then starts it with demo events (or those of a file).
# usage: run.sh DATA_FOLDER [EVENTS_FILE] [flags of firn demo]
set -euo pipefail
data=$1 events=$2
shift 2
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
binary=$target/release/firn
# A cargo call costs half a second, so this compares file times, of the console too.
if [ ! -x "$binary" ] || ! scripts/console.sh check ||
  [ -n "$(find crates Cargo.toml Cargo.lock console/dist -newer "$binary" -type f -print -quit 2>/dev/null)" ]; then
  scripts/setup.sh build
  scripts/build.sh
fi
exec "$binary" demo --data "$data" ${events:+--events "$events"} "$@"
