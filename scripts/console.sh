#!/usr/bin/env bash
# Builds the console (console/ to console/dist) to embed it in the binary. Returns at once if no source is newer.
# usage: console.sh [check]; `check` only fails if a build is due.
set -euo pipefail
cd "$(dirname "$0")/.."
console=console
# Last file that a build writes.
built=$console/dist/.built
[ -f $console/package.json ] || exit 0

is_due() {
  [ -f $console/dist/index.html ] && [ -f "$built" ] || return 0
  [ -n "$(find $console scripts/console.sh scripts/compress.mjs -newer "$built" -type f \
    -not -path "$console/node_modules/*" -not -path "$console/dist/*" -not -path "$console/e2e/*" \
    -not -path "$console/artifacts/*" -print -quit)" ]
}
is_due || exit 0
[ "${1:-}" != check ] || exit 1

log=$(mktemp)
trap 'rm -f "$log"' EXIT
quietly() { "$@" >"$log" 2>&1 || { cat "$log" >&2; return 1; }; }
if ! cmp -s $console/package-lock.json $console/node_modules/.installed 2>/dev/null; then
  echo "installing the packages of the console"
  # Not `npm ci`: it refuses a lock file that lacks a package for another platform, and registries may lack some.
  quietly npm --prefix $console install --no-save --no-audit --no-fund || {
    echo "cannot install the packages of the console (see above); is the npm registry reachable? \`cargo build --release\` builds firn without its console" >&2
    exit 1
  }
  cp $console/package-lock.json $console/node_modules/.installed
fi
echo "building the console"
quietly npm --prefix $console run --silent build
node scripts/compress.mjs $console/dist
touch "$built"
