#!/usr/bin/env bash
# Runs the official Python clients against a firn of its own (see tests/clients/).
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${FIRN_VENV:-target/clients-venv}
stamp=$venv/requirements.installed
if ! cmp -s tests/clients/requirements.txt "$stamp" 2>/dev/null; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet -r tests/clients/requirements.txt
  cp tests/clients/requirements.txt "$stamp"
fi
cargo build --quiet --bin firn
FIRN_BINARY="${CARGO_TARGET_DIR:-target}/debug/firn" "$venv/bin/python" -m pytest -q -W ignore::DeprecationWarning tests/clients
