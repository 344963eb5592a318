# Every verb of the project. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help

.PHONY: help
help: ## list the verbs
	@awk -F':.*## ' '/^[a-z][a-zA-Z_-]*:.*## /{printf "  make %-22s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# --- The word map (docs/word-map.md) ---
.PHONY: test-wordmap judy-conformance bench-wordmap
test-wordmap: ## the word map's tests, and those of its Ruby class
	@scripts/wordmap/test.sh
judy-conformance: ## libJudy's own checks, a differential fuzz and real programs, on our library
	@scripts/wordmap/judy-conformance.sh
bench-wordmap: ## measure the word map beside its peers (BENCH_OPTIONS="--quick"); recorded in bench/results
	@scripts/wordmap/bench.sh $(BENCH_OPTIONS)
