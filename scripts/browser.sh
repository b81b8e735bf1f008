#!/usr/bin/env bash
# Tests the console in a real Chromium, headless, against a separate firn (see console/e2e/).
# FIRN_BINARY and CHROMIUM replace the debug binary and the Chromium on the PATH.
set -euo pipefail
cd "$(dirname "$0")/.."
grep -q '"e2e"' console/package.json 2>/dev/null || { echo "the console has no browser tests" >&2; exit 1; }
scripts/console.sh
if [ -z "${FIRN_BINARY:-}" ]; then
  cargo build --quiet --bin firn
  case ${CARGO_TARGET_DIR:-} in
    /*) FIRN_BINARY=$CARGO_TARGET_DIR/debug/firn ;;
    *) FIRN_BINARY=$PWD/${CARGO_TARGET_DIR:-target}/debug/firn ;;
  esac
fi
CHROMIUM=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
[ -n "$CHROMIUM" ] || { echo "the browser tests need chromium: run make setup-test, or set CHROMIUM to its path" >&2; exit 1; }
export FIRN_BINARY CHROMIUM
npm --prefix console run --silent e2e
