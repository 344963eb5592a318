# Every verb of the project. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
# Where nobody has set it, as in a service, the account's own folder.
export HOME := $(or $(HOME),$(shell unset HOME; echo ~))
# Where rustup puts cargo, for shells that have not been told. Only where it is can another one be too old.
export PATH := $(or $(if $(wildcard $(HOME)/.cargo/bin/cargo),$(shell HOME='$(HOME)' scripts/ruby/cargo-path.sh)),$(PATH):$(HOME)/.cargo/bin)

# RUBY_VERSION=4.0.5, or a series: which of the versions in scripts/sources.txt. Not from the environment,
# where images and version managers have a variable of this name that says which Ruby runs.
ifeq ($(origin RUBY_VERSION),command line)
export ASHLAR_RUBY_VERSION := $(RUBY_VERSION)
endif

.PHONY: help
help: ## list the verbs
	@awk -F':.*## ' '/^[a-z][a-zA-Z_-]*:.*## /{printf "  make %-22s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# --- Ruby and the collector library ---
# SHARED=yes: wherever a Ruby with Ashlar inside is meant, the one with a libruby.so.
# LAZY=no: the one that loads all code with its file, not when it first runs (docs/design/lazy-code.md).
export SHARED LAZY
.PHONY: inside install ruby lib env
inside: ## build a Ruby with Ashlar inside (cached); SHARED=yes: with a libruby.so; LAZY=no: all code is loaded with its file
	@scripts/ruby/build-inside.sh
install: ## install it as any Ruby: PREFIX=/opt/ruby; RUBY_VERSION=4.0.5, DESTDIR=, STRIP=yes, SHARED=yes, LAZY=no
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" STRIP="$(STRIP)" scripts/ruby/install-inside.sh
ruby: ## get and build the modular and the stock Ruby (cached)
	@scripts/ruby/build-rubies.sh
lib: ## build the collector library and install it for the modular Ruby
	@scripts/ruby/build-library.sh
env: ## print shell exports: eval "$(make -s env)"
	@scripts/ruby/env.sh --inside

# The parts that need the Rubies' headers or the Rubies; with_library also builds the library.
with_rubies = exports=$$(scripts/ruby/env.sh --no-library) && eval "$$exports" &&
with_library = exports=$$(scripts/ruby/env.sh $(if $(filter inside,$(ON)),--inside)) && eval "$$exports" &&
with_inside = exports=$$(scripts/ruby/env.sh --inside) && eval "$$exports" &&
in_lab = python="$$(dirname "$$(scripts/lab/setup.sh)")/python" && cd lab &&
# ON=inside: the tests run on the Ruby with Ashlar inside, else on the library.
on = $(if $(ON),--collector $(ON))

# --- Measurements ---
.PHONY: demo bench bench-ruby-gc bench-profile bench-instructions bench-applications bench-machine
demo: ## five Ruby programs, a server that forks among them, on stock Ruby and with Ashlar inside
	@scripts/bench/demo.sh
bench-profile: ## where the time of those programs goes: collector, malloc, kernel (needs perf); VARIANTS="stock ashlar"
	@PROGRAMS="$(PROGRAMS)" VARIANTS="$(VARIANTS)" scripts/bench/profile.sh
bench-instructions: ## count their instructions, which a busy machine does not change (needs valgrind); VARIANTS="stock inside"
	@PROGRAMS="$(PROGRAMS)" VARIANTS="$(VARIANTS)" scripts/bench/instructions.sh
bench: ## measure the Ruby workloads against the goals; PROGRAMS="splay strings" BLOCKS=20 VARIANTS="stock ashlar"
	@PROGRAMS="$(PROGRAMS)" BLOCKS="$(BLOCKS)" VARIANTS="$(VARIANTS)" scripts/bench/bench.sh
bench-ruby-gc: ## the programs that Ruby's own source keeps for its collector, on stock and with Ashlar inside; PROGRAMS="ring hash2" BLOCKS=10
	@PROGRAMS="$(PROGRAMS)" BLOCKS="$(BLOCKS)" VARIANTS="$(VARIANTS)" scripts/bench/bench.sh --ruby-gc
bench-applications: ## applications against stock, jemalloc and more, points and curves; PROGRAMS="redmine pdf" BLOCKS=2 CURVES=no, or APP=~/src/optcarrot
	@PROGRAMS="$(PROGRAMS)" BLOCKS="$(BLOCKS)" VARIANTS="$(VARIANTS)" CURVES="$(CURVES)" APP="$(APP)" scripts/bench/applications.sh
bench-machine: ## the time that this machine takes from a program: the floor under its longest pause (4 minutes)
	@mkdir -p build && cc -std=gnu11 -O2 -Wall -Wextra bench/machine/lost_time.c -o build/lost_time && build/lost_time $(ROUNDS)

# --- Tests ---
.PHONY: test check-format check-lints check-scripts check-layers check-documents test-scripts test-rust test-behaviour test-module test-applications test-inside test-not-lazy test-kernels test-kernels-quick test-native-gems test-packages test-journeys release test-ruby-quick test-ruby test-aarch64
test: ## run the tests, but test-behaviour and test-ruby-quick on the library, test-ruby, test-kernels and its short form, test-native-gems, test-packages, test-journeys, test-mruby, test-aarch64 and the longer ones; ends with a table
	@scripts/test/parts.sh
check-format: ## cargo fmt --check
	@cargo fmt --all --check
check-lints: ## cargo clippy, warnings denied
	@$(with_rubies) cargo clippy --quiet --workspace --all-targets -- -D warnings
check-scripts: ## shellcheck over the shell scripts
	@git ls-files .ci/run '*.sh' | xargs -P "$$(nproc)" -n 16 shellcheck
check-layers: ## each crate's files use each other as its layers.txt says, in no circle of more than four
	@scripts/test/layers_test.py --quiet && scripts/test/layers.py
check-documents: ## links and names of documents lead somewhere, and the picture of the README is what its record says
	@scripts/test/links_test.py --quiet && scripts/test/links.py && scripts/bench/picture.py --check
test-rust: ## cargo test, but of the word map: test-wordmap has that
	@$(with_rubies) cargo test --workspace --exclude ashlar-wordmap
test-behaviour: ## Ruby programs on Ashlar, one claim at a time (ruby/test); ON=inside for the Ruby with Ashlar inside
	@$(with_library) "$$RUBY_STOCK" ruby/test/run.rb $(on)
test-module: ## those of test-behaviour that are about what a loaded library does in its own way, on the library
	@$(with_library) "$$RUBY_STOCK" ruby/test/run.rb $(addsuffix _test.rb,version start loading config options redirecting rewritten embedding \
		extensions exit signals fork thread_caches payload fibers finalizers weak_references object_ids statistics metrics server yjit) && \
		"$$RUBY_STOCK" ruby/test/run.rb --name "one whose malloc is the collector's" refusals_test.rb
test-applications: ## the applications that are measured: the same answer on Ashlar as on stock, and what APP= takes; REDMINE=yes: Redmine, too
	@$(with_library) REDMINE="$(REDMINE)" scripts/test/applications.sh
test-inside: ## test-behaviour, test-ruby-quick and the program `ashlar` on the Ruby with Ashlar inside
	@$(MAKE) --no-print-directory test-behaviour ON=inside
	@$(MAKE) --no-print-directory test-ruby-quick ON=inside
	@$(with_inside) $(in_lab) "$$python" -m pytest -m rubies tests/test_boot.py tests/test_shared.py tests/test_try.py
test-not-lazy: ## on a Ruby made with LAZY=no: the code cache and YJIT
	@export LAZY=no && $(with_inside) \
		"$$RUBY_STOCK" ruby/test/run.rb --collector inside code_cache_test.rb yjit_test.rb
test-kernels: ## Debian's kernels in an emulator, Ashlar in all its forms on each (long); KERNELS="6.1 6.17 oldest newest" SHORT=yes
	@KERNELS="$(KERNELS)" SHORT="$(SHORT)" scripts/test/kernels.sh
test-kernels-quick: ## the short form of it on kernel 6.1
	@KERNELS=6.1 SHORT=yes scripts/test/kernels.sh
test-native-gems: ## gems in C compile with the Ruby with Ashlar inside and pass their own tests; GEMS="bcrypt ffi"
	@scripts/test/native-gems.sh $(GEMS)
release: ## tarballs and Debian packages for Ruby 3.4 and 4.0, amd64 and arm64, with checksums, in build/release; RUBIES=3.4 MACHINES=x86_64
	@RUBIES="$(RUBIES)" MACHINES="$(MACHINES)" packaging/release.sh
test-scripts: ## what the scripts promise of sources that are fetched, files that are installed, measurements, and parts of the tests
	@scripts/test/sources.sh && scripts/test/install.sh && scripts/test/measuring.sh && scripts/test/parts-test.sh
test-packages: ## the Debian package, the tarball and an installation are made here, tried and removed (as root); SHARED=yes
	@packaging/try.sh
test-journeys: ## what new users do, from nothing on: a Rails application under puma, one in a container, a gem in C, a leak (long); JOURNEYS="gem leak"
	@for journey in $(or $(JOURNEYS),rails container gem leak); do scripts/test/journeys/$$journey.sh || exit; done
test-ruby-quick: ## the memory-related part of Ruby's own tests, against the default collector
	@scripts/ruby-tests/run.sh quick $(on)
test-ruby: ## all of Ruby's own tests, against the default collector (long)
	@scripts/ruby-tests/run.sh full --whole-baseline $(on)

test-aarch64: ## all made for aarch64 and tested in an emulator (hours); PARTS="heap behaviour-inside" KERNEL=16k, else all on 6.1, and some with larger pages
	@scripts/test/aarch64.sh $(if $(KERNEL),--kernel $(KERNEL)) $(PARTS)

.PHONY: documents
documents: ## write the tables of options and counters as the code has them: docs/reference, ashlar.h, its man page and the program `ashlar`
	@$(with_rubies) ASHLAR_WRITE_DOCUMENTS=1 cargo test --quiet -p ashlar-heap -p ashlar-heap-capi -p ashlar-ruby --lib -- options statistics number

# --- Longer tests of the heap (docs/design/testing.md) ---
.PHONY: record-traces stress-heap fuzz miri-heap thread-sanitizer-heap address-sanitizer-heap
stress-heap: ## the heap's random tests with ASHLAR_TEST_CASES (2000) programs each
	@ASHLAR_TEST_CASES=$${ASHLAR_TEST_CASES:-2000} cargo test -p ashlar-heap
record-traces: ## record anew the programs on which the heap's tests try pacing (10 minutes on a quiet machine); PROGRAMS="document splay"
	@scripts/test/record-traces.sh $(PROGRAMS)
fuzz: ## fuzz the heap for FUZZ_SECONDS (900); needs nightly Rust and cargo-fuzz
	@scripts/test/heap.sh fuzz
miri-heap: ## the heap's tests under Miri; needs nightly Rust with miri
	@scripts/test/heap.sh miri
thread-sanitizer-heap: ## payloads and marking under ThreadSanitizer; needs nightly Rust with rust-src
	@scripts/test/heap.sh thread-sanitizer
address-sanitizer-heap: ## the heap's tests under AddressSanitizer; needs nightly Rust
	@scripts/test/heap.sh address-sanitizer

# --- Stress ---
.PHONY: stress test-ruby-stress test-ruby-settling test-ruby-moving test-refusals memcheck
stress: stress-heap ## random heap programs, then Ruby programs verified after each of many collections
	@$(with_library) ASHLAR_STRESS=collect-every:3000,verify,poison "$$RUBY_STOCK" ruby/test/run.rb $(on) \
		threads_test.rb fibers_test.rb ractors_test.rb weak_references_test.rb finalizers_test.rb \
		object_ids_test.rb payload_test.rb extensions_test.rb yjit_test.rb exit_test.rb
test-ruby-stress: ## test-ruby-quick with many more collections, each verified, and free cells poisoned (long)
	@scripts/ruby-tests/run.sh quick $(on) --environment ASHLAR_STRESS=collect-every:20000,verify,poison,look-ahead
test-ruby-settling: ## the same with major collections instead of minor ones, so that cells settle (long)
	@scripts/ruby-tests/run.sh quick $(on) --environment ASHLAR_STRESS=collect-every:20000,no-minor,verify,poison \
		--excludes ruby/excludes/settling
test-ruby-moving: ## the core classes' own tests with all that may move moved at every collection (long)
	@scripts/ruby-tests/run.sh core $(on) --environment ASHLAR_STRESS=move-everything --excludes ruby/excludes/moving
test-refusals: ## each call of the system that the collector makes is refused to Ruby programs, alone and with all after it (72 minutes of CPU time)
	@$(with_library) EVERY_REFUSAL=1 "$$RUBY_STOCK" ruby/test/run.rb $(on) refusals_test.rb
memcheck: ## Ruby programs on the library under valgrind (about 5 minutes); needs valgrind
	@[[ "$(ON)" != inside ]] || { echo "memcheck: ON=inside is not possible: valgrind puts its own free in the place of Ruby's, and would call each free of a payload invalid. Run it without ON." >&2; exit 2; }
	@$(with_library) "$$RUBY_STOCK" ruby/test/run.rb $(on) --valgrind \
		object_ids_test.rb weak_references_test.rb finalizers_test.rb

# --- The lab ---
.PHONY: lab lock-lab test-lab simulate-lab ocaml-curves
lab: ## set up the measuring lab (cached) and say how to run it
	@scripts/lab/setup.sh >/dev/null && echo "The lab is ready: scripts/lab/ashlar-lab --help"
lock-lab: ## choose the newest versions of the packages that the lab is made with, for lab/requirements.txt (needs Python 3.11)
	@scripts/lab/lock.sh
test-lab: ## run the lab's tests
	@$(in_lab) "$$python" -m pytest
simulate-lab: ## the lab's long simulations: coverage of curves and on unlike machines, planted differences, and a million runs (about 30 minutes)
	@python="$$(dirname "$$(scripts/lab/setup.sh)")/python" && cd lab/tests && "$$python" simulate_curves.py && "$$python" simulate_gate.py && "$$python" simulate_stopping.py && "$$python" simulate_planted.py && "$$python" fleet.py "$${TRIALS:-300}" && \
		"$$python" scale.py 1e6 && "$$python" scale.py 1e6 --sweep
ocaml-curves: ## reproduce next-fit against best-fit in OCaml as space-time curves (8 minutes on a quiet machine)
	@scripts/lab/ocaml-curves.sh

# --- The heap for C (docs/design/heap-library.md) ---
.PHONY: install-heap test-heap-capi bench-native bench-native-policies bench-native-instructions
install-heap: ## install libashlar and ashlar.h: PREFIX=/usr/local, DESTDIR=
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" scripts/heap-capi/install.sh
test-heap-capi: ## what ashlar.h promises, and a small Scheme on it, with sanitizers and valgrind
	@scripts/heap-capi/test.sh
bench-native: ## programs in C on Ashlar, bdwgc, mimalloc, jemalloc, glibc: points with goals, and curves; PROGRAMS="trees queue" VARIANTS= BLOCKS=2 CURVES=no
	@PROGRAMS="$(PROGRAMS)" VARIANTS="$(VARIANTS)" BLOCKS="$(BLOCKS)" CURVES="$(CURVES)" scripts/bench/native.sh
bench-native-policies: ## policies for placing large payloads, as curves over space_overhead; recorded in bench/results
	@BLOCKS="$(BLOCKS)" scripts/bench/native.sh --policies
bench-native-instructions: ## count their instructions, which a busy machine does not change (needs valgrind)
	@PROGRAMS="$(PROGRAMS)" VARIANTS="$(VARIANTS)" scripts/bench/native.sh --instructions

# --- mruby on the heap (docs/design/second-vm.md) ---
.PHONY: mruby test-mruby bench-mruby bench-mruby-instructions
mruby: ## get mruby's source (cached) and build it on its own collector and on the heap, in build/mruby
	@scripts/mruby/build.sh stock && scripts/mruby/build.sh ashlar
test-mruby: ## mruby's own tests on both, on the heap also under stress and with sanitizers; SANITIZE=no (10 minutes, most of it compiling)
	@SANITIZE="$(SANITIZE)" scripts/mruby/test.sh
bench-mruby: ## mruby on its own collector and on the heap: points and curves; PROGRAMS="trees cache" BLOCKS=2 CURVES=no
	@PROGRAMS="$(PROGRAMS)" VARIANTS="$(VARIANTS)" BLOCKS="$(BLOCKS)" CURVES="$(CURVES)" scripts/bench/mruby.sh
bench-mruby-instructions: ## count their instructions, which a busy machine does not change (needs valgrind)
	@PROGRAMS="$(PROGRAMS)" scripts/bench/mruby.sh --instructions

# --- The word map (docs/design/word-map.md) ---
.PHONY: test-wordmap judy-conformance bench-wordmap
test-wordmap: ## the word map's tests, and those of its Ruby class
	@scripts/wordmap/test.sh
judy-conformance: ## libJudy's own checks, a differential fuzz and real programs, on our library
	@scripts/wordmap/judy-conformance.sh
bench-wordmap: ## measure the word map beside its peers (BENCH_OPTIONS="--quick", "--minutes 5", "--resume"); recorded in bench/results
	@scripts/wordmap/bench.sh $(BENCH_OPTIONS)
