#!/usr/bin/env bash
# Runs the official Python and JavaScript clients, and the benchmarks esrally and opensearch-benchmark, against a
# separate firn (see tests/clients/).
# CLIENTS="python" or "js" runs one of them.
set -euo pipefail
cd "$(dirname "$0")/.."
clients=${CLIENTS:-python js}
binary=$PWD/${CARGO_TARGET_DIR:-target}/debug/firn
case ${CARGO_TARGET_DIR:-} in /*) binary=$CARGO_TARGET_DIR/debug/firn ;; esac
offline() { echo "$1: cannot install the clients; is the registry reachable? CLIENTS=\"…\" skips one" >&2; exit 1; }

venv=${FIRN_VENV:-target/clients-venv}
if [[ $clients == *python* ]] && ! cmp -s tests/clients/requirements.txt "$venv/requirements.installed" 2>/dev/null; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet -r tests/clients/requirements.txt || offline pip
  cp tests/clients/requirements.txt "$venv/requirements.installed"
fi
# The benchmarks need other versions of the clients, and of each other's libraries.
benchmarks=${FIRN_BENCHMARKS:-target/benchmarks}
if [[ $clients == *python* ]]; then
  while read -r tool version; do
    [[ $tool == "#"* ]] && continue
    if [[ $(cat "$benchmarks/$tool/installed" 2>/dev/null) != "$version" ]]; then
      python3 -m venv "$benchmarks/$tool"
      "$benchmarks/$tool/bin/pip" install --quiet "$tool==$version" || offline pip
      echo "$version" > "$benchmarks/$tool/installed"
    fi
  done < tests/clients/benchmarks.txt
fi
js=tests/clients/js
if [[ $clients == *js* ]] && ! cmp -s $js/package-lock.json $js/node_modules/.installed 2>/dev/null; then
  (cd $js && npm ci --silent --no-audit --no-fund) || offline npm
  cp $js/package-lock.json $js/node_modules/.installed
fi

cargo build --quiet --bin firn
export FIRN_BINARY=$binary
export FIRN_BENCHMARKS=$(realpath "$benchmarks")
if [[ $clients == *python* ]]; then
  "$venv/bin/python" -m pytest -q -W ignore::DeprecationWarning -W ignore::elasticsearch.ElasticsearchWarning tests/clients
fi
if [[ $clients == *js* ]]; then
  (cd $js && node --test)
fi
