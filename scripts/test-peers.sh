#!/usr/bin/env bash
# make test-peers: runs the scenarios of tests/rest/, and a worker of event pipelines, against a real OpenSearch: at
# OPENSEARCH_URL or, if unset, one that the script OPENSEARCH_ENGINE_SH starts and stops (`SCRIPT start -n 1 -p PORT
# -m HEAP`, `SCRIPT stop`, its state under ENGINE_HOME).
set -euo pipefail
cd "$(dirname "$0")/.."
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
  trap 'bash "$OPENSEARCH_ENGINE_SH" stop' EXIT
  # On a nearly full disk OpenSearch would refuse new indices.
  bash "$OPENSEARCH_ENGINE_SH" start -n 1 -p "$port" -m 512m -s "cluster.routing.allocation.disk.threshold_enabled: false"
  export OPENSEARCH_URL=http://127.0.0.1:$port
fi
cargo test -p firn --quiet --test rest opensearch -- --nocapture
cargo test -p firn --quiet --test worker opensearch -- --nocapture
