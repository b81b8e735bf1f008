#!/usr/bin/env bash
# make run: build when something changed, then start firn with demo events (or a file's).
# usage: run.sh DATA_FOLDER [EVENTS_FILE] [flags of firn demo]
set -euo pipefail
data=$1 events=$2
shift 2
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
binary=$target/release/firn
# Asking cargo costs half a second; a newer source file is what matters.
if [ ! -x "$binary" ] || [ -n "$(find crates Cargo.toml Cargo.lock -newer "$binary" -type f -print -quit)" ]; then
  scripts/setup.sh build
  cargo build --release --bin firn
  touch "$binary"
fi
exec "$binary" demo --data "$data" ${events:+--events "$events"} "$@"
