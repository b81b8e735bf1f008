#!/usr/bin/env bash
# make test-peers: runs the scenarios of tests/rest/, a worker of event pipelines, and Sigma rules as queries against a real OpenSearch: at
# OPENSEARCH_URL or, if unset, one that the script OPENSEARCH_ENGINE_SH starts and stops (`SCRIPT start -n 1 -p PORT
# -m HEAP`, `SCRIPT stop`, its state under ENGINE_HOME).
set -euo pipefail
cd "$(dirname "$0")/.."
is_started=
work=
finish() {
  [ -z "$work" ] || rm -rf "$work"
  [ -z "$is_started" ] || bash "$OPENSEARCH_ENGINE_SH" stop
}
trap finish EXIT
if [ -z "${OPENSEARCH_URL:-}" ]; then
  if [ -z "${OPENSEARCH_ENGINE_SH:-}" ]; then
    echo "make test-peers needs a real OpenSearch 3.6: set OPENSEARCH_URL=http://HOST:PORT to one in which the tests may create" >&2
    echo "test indices, or OPENSEARCH_ENGINE_SH to a script that starts one (see the head of scripts/test-peers.sh)." >&2
    exit 1
  fi
  port=${OPENSEARCH_PORT:-9450}
  ENGINE_HOME=${ENGINE_HOME:-${TMPDIR:-/tmp}/firn-test-peers}
  # Halves the start time; performance does not matter here.
  ENGINE_JAVA_OPTS=${ENGINE_JAVA_OPTS:--XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UseG1GC -XX:-AlwaysPreTouch}
  export ENGINE_HOME ENGINE_JAVA_OPTS
  mkdir -p "$ENGINE_HOME"
  [ -d "$ENGINE_HOME"/opensearch-* ] 2>/dev/null || bash "$OPENSEARCH_ENGINE_SH" install opensearch
  is_started=yes
  # On a nearly full disk OpenSearch would refuse new indices.
  bash "$OPENSEARCH_ENGINE_SH" start -n 1 -p "$port" -m 512m -s "cluster.routing.allocation.disk.threshold_enabled: false"
  export OPENSEARCH_URL=http://127.0.0.1:$port
fi
cargo test -p firn --quiet --test rest opensearch -- --nocapture
cargo test -p firn --quiet --test worker opensearch -- --nocapture

# Sigma rules as queries of pySigma, over the same events.
data=$(cd .. && pwd)/shared/data
if [ ! -f "$data/sigma.tar.xz" ] || [ ! -f "$data/windows-events.ndjson.gz" ]; then
  echo "SKIPPED: Sigma rules compared with OpenSearch: [$data] lacks sigma.tar.xz or windows-events.ndjson.gz" >&2
  exit 0
fi
work=$(mktemp -d)
tar xf "$data/sigma.tar.xz" -C "$work"
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --requirement tests/peers/requirements.txt
cargo build -p firn --quiet
"$work/venv/bin/python" tests/peers/sigma_queries.py --firn "${CARGO_TARGET_DIR:-target}/debug/firn" --url "$OPENSEARCH_URL" \
  --rules "$work/rules" "$work/rules-emerging-threats" --events "$data/windows-events.ndjson.gz"
