# Every verb of the project. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help

.PHONY: help
help: ## list the verbs
	@awk -F':.*## ' '/^[a-z][a-zA-Z_-]*:.*## /{printf "  make %-22s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# --- The lab ---
.PHONY: lab test-lab ocaml-curves
lab: ## set up the measuring lab (cached) and say how to run it
	@scripts/lab/setup.sh >/dev/null && echo "The lab is ready: scripts/lab/ashlar --help"
test-lab: ## run the lab's tests
	@python="$$(dirname "$$(scripts/lab/setup.sh --test)")/python" && cd lab && "$$python" -m pytest
ocaml-curves: ## reproduce next-fit against best-fit in OCaml as space-time curves (about 12 minutes)
	@scripts/lab/ocaml-curves.sh
