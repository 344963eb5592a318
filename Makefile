# Every verb of the project. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help

.PHONY: help
help: ## list the verbs
	@awk -F':.*## ' '/^[a-z][a-zA-Z_-]*:.*## /{printf "  make %-22s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
