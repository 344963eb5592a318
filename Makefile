# Every verb of the project. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help

.PHONY: help
help: ## list the verbs
	@awk -F':.*## ' '/^[a-z][a-zA-Z_-]*:.*## /{printf "  make %-22s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# --- Ruby and the collector library ---
.PHONY: ruby lib env
ruby: ## get and build the modular and the stock Ruby (cached)
	@scripts/ruby/build-rubies.sh
lib: ## build the collector library and install it for the modular Ruby
	@scripts/ruby/build-library.sh
env: ## print shell exports: eval "$(make -s env)"
	@scripts/ruby/env.sh
