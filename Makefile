# The commands of the project. Each does its own set-up, see scripts/setup.sh.
# ARGS is passed on: make run ARGS='--listen 127.0.0.1:7000', make bench ARGS=…

SHELL := /bin/bash
# rustup's folder, for shells whose PATH does not have it.
export PATH := $(PATH):$(HOME)/.cargo/bin
ARGS ?=
# For each of the targets of make fuzz.
FUZZ_SECONDS ?= 300
# The lab is not needed to run.
RUN_FEATURES := --no-default-features --features embedded

.PHONY: help setup run demo profile dist package deb test-deb sbom deny docs lint-deploy production check test test-all drivers conformance soak soak-queue simulate pace failover histories chaos fuzz fmt bench pooler inventory neighbours compressed thin-link sharded cost clean

help:
	@echo 'make setup   install what building needs'
	@echo 'make run     build, start an embedded PostgreSQL and Paceline in front of it'
	@echo 'make demo    see five surges, before and after, in about a minute'
	@echo 'make check   check the format, run clippy and the unit tests: for daily work'
	@echo 'make test    check the format, run clippy, every short test and a sample of the long ones: what CI runs'
	@echo 'make test-all the same with every test, drivers of other languages among them; about 45 minutes'
	@echo 'make drivers run the suites of asyncpg, psycopg2, pgx, lib/pq and node-postgres on PostgreSQL and through Paceline, and compare'
	@echo 'make conformance run the suites of PostgreSQL (regression, isolation, libpq_pipeline) on it and through Paceline, and compare'
	@echo 'make failover kill, freeze and stop primaries under load, and compare reads on replicas with writes; FAILOVERS (200), READS (100000)'
	@echo 'make chaos   kill, cut, slow, hold and fill under every strategy, RUNS times (1000), and compare the database with what each client was told'
	@echo 'make histories run random transactions at all isolation levels and look for anomalies; TRANSACTIONS (200000)'
	@echo 'make soak    move a million orders through a queue, its consumers killed at random'
	@echo 'make soak-queue take 2,000 jobs a second for SOAK_SECONDS (600) while a transaction stays open'
	@echo 'make simulate check histories of Paceline, a simulated PostgreSQL and simulated clients in one thread, STEPS steps (1000000) from SEED'
	@echo 'make pace    compare the limit of groups in flight that is found with the best fixed one, on 768 simulated servers'
	@echo 'make fuzz    try mutated bytes, on the readers of messages and a running Paceline; FUZZ_SECONDS (300) per target'
	@echo 'make production check the build for production: without the lab and the embedded PostgreSQL'
	@echo 'make fmt     format the sources'
	@echo 'make profile record which code of Paceline runs how often, for the builds with every optimisation; takes about 10 minutes'
	@echo 'make dist    build with every optimisation, target/dist/paceline, its symbols beside it; the commands that measure use it'
	@echo 'make package the same for production, in target/package: without the lab and the embedded PostgreSQL, it downloads nothing'
	@echo 'make deb     build a Debian package, target/paceline_VERSION_ARCHITECTURE.deb; it begins with make package'
	@echo 'make test-deb install, start, upgrade and remove the Debian package in a container with systemd, as root'
	@echo 'make docs    build the documents as a site, target/docs/index.html, and check its links'
	@echo 'make sbom    write the software bill of materials, target/paceline.cdx.json'
	@echo 'make deny    check licenses, sources and versions of all libraries with cargo-deny; with ADVISORIES=1 also known vulnerabilities'
	@echo 'make lint-deploy check the Dockerfile, the compose file and the Helm chart'
	@echo 'make bench   measure PostgreSQL alone, PgBouncer and Paceline'
	@echo 'make pooler  measure Paceline as a pooler beside PgBouncer: clients, TLS, logins, memory'
	@echo 'make inventory measure sales of one article with sysbench, 1 to 1,024 threads, beside PgBouncer'
	@echo 'make neighbours measure what one client costs another: long pipelines, nested comments, many rows'
	@echo 'make compressed run more of the end-to-end tests through compressed connections between two Pacelines'
	@echo 'make thin-link measure two Pacelines with a compressed link of 100 Mbit/s and of 1 Gbit/s between them, in network namespaces, as root'
	@echo 'make sharded measure a coordinator with two shards, alone and through Paceline'
	@echo 'make cost    count instructions of Paceline per request, by workload'
	@echo 'make clean   remove what was built'

setup:
	@scripts/setup.sh build

run: setup
	@echo 'building with few optimisations'
	@cargo build --profile quick --bin paceline $(RUN_FEATURES)
	@scripts/run.sh $(ARGS)

demo: setup
	@scripts/dist.sh target/dist
	@target/dist/paceline bench $(ARGS)

check:
	@scripts/setup.sh build
	cargo fmt --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo test --workspace --lib --bins

# What make test and make test-all have in common. With --workspace in each command, cargo builds everything once.
define test
	@scripts/setup.sh test
	cargo fmt --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo test --workspace -- $(1)
	@echo 'instructions per request of the build for tests, which has no optimisations; make cost counts those of the release build'
	PACELINE=target/debug/paceline ROUNDS=50 ONLY='SELECT 1, simple|statement of a transaction|hot row, prepared' scripts/cost.sh
	@echo 'a part once more with a second Paceline beside the server, and compressed connections between both'
	PACELINE_E2E_LINK=1 cargo test --workspace --test e2e -- clients::volume session::walk pipelines
	@echo 'once more what depends on the version, against the newest PostgreSQL that can be fetched'
	PACELINE_E2E_POSTGRES=fetched cargo test --workspace --test e2e -- $(2)
endef

test:
	$(call test,$$(scripts/sample.sh skip),$$(scripts/sample.sh versions))

test-all:
	$(call test,,$(shell sed -n "s/^versions='\(.*\)'/\1/p" scripts/sample.sh | tr '|' ' '))

drivers:
	@scripts/setup.sh test
	@cargo build --bin paceline
	@scripts/driver-suites.sh $(ARGS)

conformance:
	@scripts/setup.sh test
	@cargo build --bin paceline
	@scripts/conformance.sh $(ARGS)

# Kills, freezes and stops primaries under load, FAILOVERS times; then writes and reads READS times on a chain of replicas. PACELINE_SEED
# repeats a run.
FAILOVERS ?= 200
READS ?= 100000
failover:
	PACELINE_FAILOVERS=$(FAILOVERS) cargo test -p paceline --test e2e -- --nocapture repeated_failovers
	PACELINE_READS=$(READS) cargo test -p paceline --test e2e -- --nocapture reads::pairs

# SEED repeats a run; that of a history which fails, with STEPS=1, repeats the history.
STEPS ?= 1000000
simulate:
	@scripts/setup.sh test
	$(if $(SEED),PACELINE_SEED=$(SEED)) PACELINE_STEPS=$(STEPS) cargo test --profile simulation -p paceline-simulation --test simulation -- --nocapture histories_hold

# The sample of `make test` is drawn from the same grid; PACELINE_SEED repeats a run.
pace:
	@scripts/setup.sh test
	PACELINE_SCENARIOS=all cargo test --release -p paceline-batch --lib -- --nocapture the_limit_that_is_found

# PACELINE_SEED of a run, which it prints, repeats its faults and requests with RUNS=1.
RUNS ?= 1000
chaos:
	@scripts/setup.sh test
	PACELINE_RUNS=$(RUNS) cargo test -p paceline --test e2e -- --nocapture chaos::nothing

# PACELINE_SEED repeats the requests of a run, not their times.
TRANSACTIONS ?= 200000
histories:
	@scripts/setup.sh test
	PACELINE_TRANSACTIONS=$(TRANSACTIONS) cargo test --release -p paceline --test e2e -- --nocapture histories

soak:
	@scripts/setup.sh test
	PACELINE_E2E_ORDERS=1000000 cargo test --release -p paceline --test e2e -- --nocapture orders::picked_by_advisory_lock

SOAK_SECONDS ?= 600
soak-queue:
	@scripts/setup.sh test
	PACELINE_QUEUE_SOAK_SECONDS=$(SOAK_SECONDS) PACELINE_E2E_TEST_LIMIT=3600 cargo test --release -p paceline --test e2e -- --nocapture groups::queue_soak

fuzz:
	@scripts/setup.sh test
	FUZZ_SECONDS=$(FUZZ_SECONDS) cargo test --release -p paceline --test e2e -- --nocapture fuzz::

fmt:
	cargo fmt

bench:
	@scripts/setup.sh bench
	@scripts/dist.sh target/dist
	@scripts/bench.sh $(ARGS)

pooler:
	@scripts/setup.sh bench
	@scripts/dist.sh target/dist
	@scripts/pooler.sh

inventory:
	@scripts/setup.sh bench
	@scripts/dist.sh target/dist
	@scripts/inventory.sh

neighbours:
	@scripts/setup.sh bench
	@scripts/dist.sh target/dist
	@scripts/neighbours.sh

compressed:
	@scripts/setup.sh test
	PACELINE_E2E_LINK=1 cargo test -p paceline --test e2e -- clients::volume clients::cancel clients::leaving session::walk prepared groups::equivalence groups::settings pipelines

thin-link:
	@scripts/setup.sh bench
	@scripts/dist.sh target/dist
	@scripts/thin-link.sh

sharded:
	@scripts/setup.sh bench
	@scripts/dist.sh target/dist
	@scripts/sharded.sh

cost:
	@scripts/setup.sh bench
	@scripts/dist.sh target/dist
	@scripts/cost.sh

profile:
	@scripts/setup.sh bench
	@scripts/profile.sh

dist: setup
	@scripts/dist.sh target/dist

package: production
	@scripts/dist.sh target/package --no-default-features

deb: package
	@scripts/setup.sh package
	@scripts/deb.sh

# The package of the upgrade differs in its revision only. The mail address of the maintainer is a placeholder; configuration files are
# readable for the service only.
test-deb: deb
	lintian --allow-root --fail-on error,warning --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog,initial-upload-closes-no-bugs,non-standard-file-perm target/paceline_*-1_*.deb
	@DEB_REVISION=2 scripts/deb.sh
	@scripts/test-deb.sh target/paceline_*-1_*.deb target/paceline_*-2_*.deb

sbom:
	@scripts/sbom.sh target/paceline.cdx.json

# The database of vulnerabilities is on GitHub, so it is not read by default.
deny:
	@scripts/tools.sh cargo-deny
	target/tools/bin/cargo-deny --workspace check bans licenses sources $(if $(ADVISORIES),advisories)

docs:
	@scripts/docs.sh

lint-deploy:
	@scripts/lint-deploy.sh

# Not part of `make test`: it compiles most crates once more, with other features.
production: setup
	cargo clippy -p paceline --no-default-features -- -D warnings
	cargo test -p paceline --no-default-features --test production

clean:
	cargo clean
