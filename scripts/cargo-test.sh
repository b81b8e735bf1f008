#!/usr/bin/env bash
# `cargo test` with these arguments. Up to three failed tests run once more, alone: a test that passes then depends on the load of the machine;
# it is named at the end and in target/flaky-tests.txt, and is a defect of the test or of firn. More failures, or a second one, fail.
set -uo pipefail
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT

"${CARGO:-cargo}" test --quiet --no-fail-fast "$@" 2>&1 | tee "$log"
status=${PIPESTATUS[0]}
if [ "$status" = 0 ]; then exit 0; fi

# The names are listed, indented by four blanks, at the end of each failed binary.
mapfile -t names < <(awk '/^failures:$/ {listed = ""; next} /^    [A-Za-z0-9_:]+$/ {listed = listed $1 "\n"} /^test result: FAILED/ {printf "%s", listed}' "$log")
mapfile -t targets < <(sed -n 's/^    `\(-p [^ ]* \)\{0,1\}\(--[a-z]*\( [A-Za-z0-9_-]*\)\{0,1\}\)`$/\2/p' "$log" | sort -u)
failed=$(sed -n 's/^test result: FAILED\. [0-9]* passed; \([0-9]*\) failed.*/\1/p' "$log" | awk '{sum += $1} END {print sum + 0}')
if [ "${#names[@]}" = 0 ] || [ "${#names[@]}" -gt 3 ] || [ "${#names[@]}" != "$failed" ]; then exit "$status"; fi

passed=0
for target in "${targets[@]}"; do
  # shellcheck disable=SC2086 # a kind of target and its name
  "${CARGO:-cargo}" test --quiet "$@" $target -- --exact "${names[@]}" --test-threads 1 2>&1 | tee "$log"
  [ "${PIPESTATUS[0]}" = 0 ] || exit "$status"
  passed=$((passed + $(sed -n 's/^test result: ok\. \([0-9]*\) passed.*/\1/p' "$log" | awk '{sum += $1} END {print sum + 0}')))
done
# A name that ran in no binary, as those of documentation tests, has not passed.
if [ "$passed" -lt "${#names[@]}" ]; then exit "$status"; fi
mkdir -p target
for name in "${names[@]}"; do
  echo "FLAKY: $name failed, and passed when it ran alone" >&2
  echo "$name" >> target/flaky-tests.txt
done
