#!/usr/bin/env bash
# Installs the packages for building (`build`) or testing (`test`) firn on Debian. Returns at once if all are
# installed. Without the right to install, it prints the missing packages in one line and fails.
set -euo pipefail
what=${1:-build}
cd "$(dirname "$0")/.."

packages=()
need() { command -v "$1" >/dev/null 2>&1 || packages+=("$2"); }
need cc gcc
need clang clang
need mold mold
need curl curl
need node nodejs
need npm npm
# librdkafka, which reads Kafka, is built from source; it speaks TLS by OpenSSL.
need g++ g++
need make make
need pkg-config pkg-config
[ -e /usr/include/openssl/ssl.h ] || packages+=(libssl-dev)
if [ "$what" = test ]; then
  need python3 python3
  python3 -c 'import venv, ensurepip' 2>/dev/null || packages+=(python3-venv)
  [ -n "${CHROMIUM:-}" ] || need chromium chromium
  # Tests of enrichment tables start a server of their own.
  compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || packages+=(postgresql)
fi
if [ "$what" = test-kafka ]; then
  need java default-jre-headless
  need mvn maven
fi
if [ ${#packages[@]} -gt 0 ]; then
  apt=()
  if [ "$(id -u)" = 0 ]; then apt=(apt-get); elif sudo -n true 2>/dev/null; then apt=(sudo -n apt-get); fi
  if [ ${#apt[@]} = 0 ] || ! command -v apt-get >/dev/null; then
    echo "firn needs these packages; install them and run make again: ${packages[*]}" >&2
    exit 1
  fi
  echo "installing ${packages[*]}"
  "${apt[@]}" update -qq
  DEBIAN_FRONTEND=noninteractive "${apt[@]}" install -y -qq "${packages[@]}" >/dev/null
fi

if ! command -v cargo >/dev/null 2>&1; then
  echo "firn needs Rust: install rustup (https://rustup.rs), then run make again" >&2
  exit 1
fi
# rust-toolchain.toml pins the version; rustup may be configured not to install it automatically.
if ! cargo --version >/dev/null 2>&1; then
  rustup toolchain install >/dev/null
fi

if [ "$what" = test ] && ! cargo deny --version >/dev/null 2>&1; then
  echo "installing cargo-deny"
  cargo install cargo-deny --locked --debug --quiet --target-dir "${TMPDIR:-/tmp}/firn-cargo-deny"
  rm -rf "${TMPDIR:-/tmp}/firn-cargo-deny"
fi

if [ "$what" = test ] && ! cargo machete --version >/dev/null 2>&1; then
  echo "installing cargo-machete"
  cargo install cargo-machete --version 0.9.2 --locked --debug --quiet --target-dir "${TMPDIR:-/tmp}/firn-cargo-machete"
  rm -rf "${TMPDIR:-/tmp}/firn-cargo-machete"
fi

# S3 server that tests and benchmarks of snapshots start; they also search Go's install folder for it.
if [ "$what" = test ]; then
  versitygw=github.com/versity/versitygw/cmd/versitygw@v1.8.0
  folder=""
  if command -v go >/dev/null 2>&1; then folder=$(go env GOBIN); folder=${folder:-$(go env GOPATH)/bin}; fi
  if ! command -v versitygw >/dev/null 2>&1 && [ ! -x "$folder/versitygw" ]; then
    if [ -z "$folder" ]; then
      echo "firn's tests need Go (https://go.dev/dl) to install $versitygw; run make again then" >&2
      exit 1
    fi
    echo "installing versitygw"
    go install "$versitygw"
  fi
fi
