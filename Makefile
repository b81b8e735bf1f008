# Entry point for all tasks; cargo and scripts/ do the work. `make help` lists the targets.
.DEFAULT_GOAL := help
.PHONY: help setup setup-test build run test test-peers test-kafka tidy check unit e2e broker crash clients console console-dist browser soak reference fuzz bench bench-layout bench-discover bench-console bench-pipeline docs clean

EVENTS ?=
DATA ?= ./data
RUN_FLAGS ?=
CARGO ?= cargo

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "make %-12s %s\n", $$1, $$2}'

setup: ## install the build dependencies (with apt, if permitted)
	@scripts/setup.sh build

setup-test:
	@scripts/setup.sh test

build: setup ## build the release binary with the embedded console; its symbols and debug information are files beside it
	@scripts/build.sh

run: ## build and start firn on 127.0.0.1:9200 with demo events; EVENTS=FILE indexes that file instead
	@scripts/run.sh "$(DATA)" "$(EVENTS)" $(RUN_FLAGS)

# The default is a share of the disk, and the disk of a machine that runs tests may be nearly full.
unit e2e test-kafka clients browser: export FIRN_CLUSTER_ROUTING_ALLOCATION_DISK_WATERMARK_FLOOD_STAGE = 100mb

test: setup-test console-dist check unit e2e broker clients browser ## everything: format, lints, licences, unit, property, end-to-end, crash and browser tests

test-peers: ## the REST scenarios against a real OpenSearch: OPENSEARCH_URL, or one that OPENSEARCH_ENGINE_SH starts
	@scripts/test-peers.sh

test-kafka: ## Kafka pipelines against a real broker, with kill -9 and restarts; needs Java and Maven, fetches Apache Kafka from Maven Central
	@scripts/setup.sh test-kafka
	$(CARGO) clippy -p firn-kafka -p firn --all-targets --features firn-kafka/broker-tests,firn/broker-tests --quiet -- -D warnings
	@scripts/cargo-test.sh -p firn-kafka --features broker-tests
	@scripts/cargo-test.sh -p firn --features broker-tests --test kafka

tidy: ## the house rules: levels of crates, import circles, words, links (seconds)
	@$(CARGO) run --quiet --package firn-tidy

check: tidy ## house rules, format, lints, licences, unused dependencies
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	$(CARGO) deny --log-level error check bans licenses sources
	$(CARGO) machete

unit: ## unit and property tests of the libraries
	@scripts/cargo-test.sh --workspace --exclude firn

e2e: ## the binary: command line, REST, README tour, kill -9
	@scripts/cargo-test.sh -p firn

broker: ## test-kafka, skipped with a message where Kafka cannot be fetched
	@scripts/test-broker.sh

clients: ## the official Python and JavaScript clients against a running firn
	@scripts/clients.sh

console-dist:
	@scripts/console.sh

console: ## develop the console: Vite's server, backed by the firn at FIRN_URL (http://127.0.0.1:9200)
	@npm --prefix console install --no-audit --no-fund --silent
	@npm --prefix console run dev

browser: ## the console in a real Chromium, against a separate firn
	@scripts/browser.sh

soak: ## 2,000 rounds of kill -9 (SOAK_ROUNDS=N), 500 of detection (DETECTION_ROUNDS=N), 1,000 of Kafka (KAFKA_ROUNDS=N), 5,000 damaged files (SOAK_DAMAGE=N), an hour on a simulated disk (SIM_SECONDS=N)
	FIRN_CRASH_ROUNDS=$${SOAK_ROUNDS:-2000} FIRN_CRASH_SECONDS=7200 $(CARGO) test --release -p firn --test crash -- --nocapture
	FIRN_DETECTION_ROUNDS=$${DETECTION_ROUNDS:-500} $(CARGO) test --release -p firn --test detection_faults -- --nocapture
	@scripts/setup.sh test-kafka
	FIRN_KAFKA_ROUNDS=$${KAFKA_ROUNDS:-1000} $(CARGO) test --release -p firn --features broker-tests --test kafka -- --nocapture
	FIRN_DAMAGE_CASES=$${SOAK_DAMAGE:-5000} $(CARGO) test --release -p firn --test damage -- --nocapture
	FIRN_SIM_SECONDS=$${SIM_SECONDS:-3600} $(CARGO) test --release -p firn-embedded --test simulation -- --nocapture

reference: ## compare 100,000 random answers with the naive engine (REFERENCE_CASES=N to change)
	FIRN_REFERENCE_CASES=$${REFERENCE_CASES:-100000} $(CARGO) test -p firn --test reference -- --nocapture

fuzz: ## fuzz the parsers and searches for a minute each (FUZZ_SECONDS=N, FUZZ_TARGETS=… to change)
	@scripts/fuzz.sh

bench: build ## benchmark, side by side with a real OpenSearch if OPENSEARCH_URL is set
	@scripts/bench.sh

bench-layout: build ## benchmark of index layouts, in firn and in a real OpenSearch if OPENSEARCH_URL is set
	@scripts/bench-layout.sh

bench-discover: build ## benchmark of Discover's stages, and of the same operations in a real OpenSearch if OPENSEARCH_URL is set
	@scripts/bench-discover.sh

bench-console: ## time from Enter to the first row on screen in Chromium, against the server at FIRN_URL
	@scripts/bench-console.sh

bench-pipeline: build ## benchmark of event pipelines, beside a real OpenSearch if OPENSEARCH_URL is set; GEOIP_CITY and GEOIP_ASN name MaxMind databases
	@scripts/bench-pipeline.sh

docs: ## regenerate the reference pages from their definitions
	@$(CARGO) run --quiet --bin firn -- settings --markdown > docs/operate/settings.md
	@UPDATE_DOCS=1 $(CARGO) test -p firn --test rest --quiet the_compatibility_page > /dev/null

clean:
	@$(CARGO) clean
