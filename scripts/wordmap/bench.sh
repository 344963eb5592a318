#!/usr/bin/env bash
# Measures the word map beside its peers, interleaved, and records the results
# with the machine's description under bench/results/wordmap/.
#
#   scripts/wordmap/bench.sh [--quick] [--rounds N] [--minutes N] [--resume]
#
# A run that --minutes stopped (exit code 3) goes on with --resume, on the same day.
set -euo pipefail
cd "$(dirname "$0")/../.."
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
if command -v "${RUBY:-ruby}" >/dev/null; then
    extension="$(scripts/wordmap/ruby-extension.sh 2>/dev/null)"
    "${RUBY:-ruby}" -I "$extension" bench/wordmap/ruby.rb | tee "$out/ruby.md"
else
    echo "Ruby's own tables: SKIPPED, no ruby (set RUBY or install ruby and ruby-dev)"
fi
