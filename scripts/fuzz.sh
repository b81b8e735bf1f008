#!/usr/bin/env bash
# Fuzzes each target for FUZZ_SECONDS (60). Needs a nightly toolchain; installs cargo-fuzz if missing.
set -euo pipefail
cd "$(dirname "$0")/.."
rustup toolchain list | grep -q nightly || { echo "fuzzing needs a nightly toolchain: rustup toolchain install nightly" >&2; exit 1; }
cargo +nightly fuzz --version >/dev/null 2>&1 || cargo install cargo-fuzz --locked --debug --quiet
for target in ${FUZZ_TARGETS:-bulk mapper query}; do
  mkdir -p "fuzz/corpus/$target"
  cargo +nightly fuzz run --sanitizer "${FUZZ_SANITIZER:-none}" "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" -- \
    -max_total_time="${FUZZ_SECONDS:-60}" -rss_limit_mb=4096 -max_len=65536
done
