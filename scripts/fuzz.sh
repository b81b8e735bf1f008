#!/usr/bin/env bash
# Fuzzes each target, or those in FUZZ_TARGETS, for FUZZ_SECONDS (60). Uses a nightly toolchain if there is one,
# otherwise the stable one, which is enough without a sanitizer. Installs cargo-fuzz if it is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=(cargo)
if rustup toolchain list 2>/dev/null | grep -q ^nightly; then cargo=(cargo +nightly); else export RUSTC_BOOTSTRAP=1; fi
"${cargo[@]}" fuzz --version >/dev/null 2>&1 || cargo install cargo-fuzz --locked --debug --quiet
targets=${FUZZ_TARGETS:-$(cd fuzz/fuzz_targets && ls -- *.rs | sed 's/\.rs$//')}
for target in $targets; do
  mkdir -p "fuzz/corpus/$target"
  "${cargo[@]}" fuzz run --sanitizer "${FUZZ_SANITIZER:-none}" "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" -- \
    -max_total_time="${FUZZ_SECONDS:-60}" -timeout=20 -rss_limit_mb=4096 -max_len=65536 -dict=fuzz/dictionary
done
