#!/usr/bin/env bash
# Runs the heap's tests under a tool of the nightly Rust toolchain.
#   scripts/test/heap.sh fuzz              random programs, coverage-guided, for FUZZ_SECONDS (900)
#   scripts/test/heap.sh miri              the interpreter that finds undefined behaviour
#   scripts/test/heap.sh thread-sanitizer  data races between threads that use payloads, mark, or
#                                          share Ruby's side of the collector
#   scripts/test/heap.sh address-sanitizer accesses outside mappings and allocations
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# need WHAT COMMAND...: stops when COMMAND fails, saying WHAT would help.
need() {
  local what=$1
  shift
  "$@" >/dev/null 2>&1 && return
  printf 'heap.sh: needs %s\n' "$what" >&2
  exit 2
}

need 'a nightly Rust toolchain: rustup toolchain install nightly' cargo +nightly --version
host=$(rustc +nightly --version --verbose | sed -n 's/^host: //p')
has_std_source() { [[ -e $(rustc +nightly --print sysroot)/lib/rustlib/src/rust/library/Cargo.lock ]]; }

case ${1-} in
  fuzz)
    need 'cargo-fuzz: cargo install cargo-fuzz' cargo fuzz --version
    # Programs of 250 operations; the largest heap has 16 MiB, the rest is the sanitizer's.
    cargo +nightly fuzz run heap_ops -- -max_total_time="${FUZZ_SECONDS:-900}" \
      -max_len=1500 -len_control=0 -rss_limit_mb=3000 -timeout=60
    ;;
  miri)
    (($# > 1)) || set -- miri --lib # all of them take hours; give others by name
    # What threads hand to each other needs the model that the others are spared.
    handed_over=(a_span_is_seen_whole what_a_thread_wrote what_was_written_before threads_see)
    need 'Miri: rustup component add --toolchain nightly miri' cargo +nightly miri --version
    # Words of the heap are addresses: pointers made of them have no provenance of their own.
    # The state table is read by bytes and by words, which Miri's model of weak memory refuses.
    MIRIFLAGS='-Zmiri-permissive-provenance -Zmiri-disable-isolation
      -Zmiri-disable-weak-memory-emulation' \
      cargo +nightly miri test -p ashlar-heap --target-dir target/miri "${@:2}"
    # Heaps that have panicked are never ended there, and to list where a panic came from takes
    # minutes.
    RUST_BACKTRACE=0 MIRIFLAGS='-Zmiri-permissive-provenance -Zmiri-disable-isolation
      -Zmiri-disable-weak-memory-emulation -Zmiri-ignore-leaks' \
      cargo +nightly miri test -p ashlar-heap --target-dir target/miri --test soundness
    MIRIFLAGS='-Zmiri-permissive-provenance -Zmiri-disable-isolation -Zmiri-many-seeds=0..8' \
      cargo +nightly miri test -p ashlar-heap --target-dir target/miri --lib --test payloads -- "${handed_over[@]}"
    ;;
  thread-sanitizer)
    need "Rust's own source: rustup component add --toolchain nightly rust-src" has_std_source
    # The standard library is built anew, or its locks would be invisible.
    RUSTFLAGS='-Zsanitizer=thread --cfg thread_sanitizer' cargo +nightly test -Zbuild-std --target "$host" \
      -p ashlar-heap --lib --test payloads --test parallel --target-dir target/thread-sanitizer
    exports=$(scripts/ruby/env.sh --no-library)
    eval "$exports"
    RUSTFLAGS='-Zsanitizer=thread --cfg thread_sanitizer' cargo +nightly test -Zbuild-std --target "$host" \
      -p ashlar-ruby --target-dir target/thread-sanitizer shared_test
    ;;
  address-sanitizer)
    LSAN_OPTIONS="suppressions=$PWD/scripts/test/leaks.txt:print_suppressions=0" \
      RUSTFLAGS='-Zsanitizer=address --cfg address_sanitizer' cargo +nightly test --target "$host" \
      -p ashlar-heap --tests --target-dir target/address-sanitizer
    ;;
  *)
    sed -n '2,7s/^# //p' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac
