#!/usr/bin/env bash
# The tests with a real Apache Kafka, as a part of `make test`. Where Kafka cannot be fetched from Maven Central they are skipped, and
# the last lines say so; `make test-kafka` fails there.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/^const VERSION: &str = "\(.*\)";$/\1/p' crates/testkit/src/kafka.rs)
fetch() {
  scripts/setup.sh test-kafka &&
    timeout 300 mvn -q -B dependency:get -Dartifact="org.apache.kafka:kafka_2.13:$version" -Dtransitive=false
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! fetch >"$log" 2>&1; then
  tail -n 5 "$log" >&2
  echo "SKIPPED: the tests with a real Kafka $version, which cannot be fetched here. Nothing of the source [kafka] was tested against a broker." >&2
  exit 0
fi
make test-kafka
