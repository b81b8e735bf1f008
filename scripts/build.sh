#!/usr/bin/env bash
# Builds the release binary with the embedded console. The binary is stripped; `firn.debug` and `firn.dwp` beside it hold the symbols and
# the debug information, which backtraces and debuggers find there.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=${CARGO_TARGET_DIR:-target}/release/firn
scripts/console.sh
"${CARGO:-cargo}" build --release --bin firn
# Cargo puts its own file back at each call: whether it has symbols says whether it is stripped already.
if readelf --section-headers --wide "$binary" | grep -q ' \.symtab '; then
  objcopy --only-keep-debug "$binary" "$binary.debug"
  objcopy --strip-all --add-gnu-debuglink="$binary.debug" "$binary" "$binary.stripped"
  mv "$binary.stripped" "$binary"
fi
touch "$binary"
