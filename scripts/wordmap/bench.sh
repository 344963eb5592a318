#!/usr/bin/env bash
# Measures the word map beside its peers, interleaved, and records the results
# with the machine's description under bench/results/wordmap/.
#
#   scripts/wordmap/bench.sh [--quick] [--rounds N] [--minutes N] [--resume]
#
# A run that --minutes stopped (exit code 3) goes on with --resume, on the same day.
# Ruby's own tables are measured in the Ruby that RUBY names, else in the stock one
# that `make ruby` builds.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=scripts/ruby/paths.sh
. scripts/ruby/paths.sh
# shellcheck source=scripts/ruby/messages.sh
. scripts/ruby/messages.sh
# shellcheck source=scripts/ruby/packages.sh
. scripts/ruby/packages.sh
# Without the stock libJudy the others are measured, and the program says so.
if is_debian && ((EUID == 0)); then
    (ensure_packages 'measuring the word map' libjudydebian1) || say 'libJudy cannot be installed'
fi
out="bench/results/wordmap/$(date +%Y-%m-%d)"
mkdir -p "$out"
cargo build --release --quiet -p ashlar-wordmap-capi
export CARGO_TARGET_DIR="$PWD/target/bench-wordmap"
# Peers and map alike are built for this processor.
RUSTFLAGS="-C target-cpu=native" cargo build --release --quiet --manifest-path bench/wordmap/Cargo.toml
bench="$CARGO_TARGET_DIR/release/ashlar-bench-wordmap"
unset CARGO_TARGET_DIR
if [[ " $* " != *" --resume "* ]]; then
    {
        lscpu | grep -E '^(Model name|CPU\(s\)|L1d|L2|L3|Hypervisor)'
        grep MemTotal /proc/meminfo
        uname -sr
        rustc --version
        echo "commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
    } >"$out/machine.txt"
fi
echo "load average at the start of a part: $(cut -d' ' -f1-3 /proc/loadavg)" >>"$out/machine.txt"
"$bench" run "$@" --ours target/release/libashlar_judy.so --out "$out/cells.jsonl"
"$bench" report "$out/cells.jsonl" --svg "$out/wordmap.svg" | tee "$out/table.md"
if [[ -z ${RUBY-} ]]; then
    exports=$(scripts/ruby/env.sh --no-library)
    eval "$exports"
    RUBY=$RUBY_STOCK
fi
export RUBY
extension="$(scripts/wordmap/ruby-extension.sh)"
"$RUBY" -I "$extension" bench/wordmap/ruby.rb | tee "$out/ruby.md"
