#!/usr/bin/env bash
# The word map's tests: Rust's, those of its benchmark, and those of the Ruby class, in the Ruby that RUBY names,
# else in the stock one that `make ruby` builds.
set -euo pipefail
cd "$(dirname "$0")/../.."
# Optimised, as it is used, and with its own checks; linked without what takes minutes and finds no more.
CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true \
  cargo test --release --quiet -p ashlar-wordmap
scripts/wordmap/bench-test.sh
CARGO_TARGET_DIR=$PWD/target/bench-wordmap cargo test --quiet --manifest-path bench/wordmap/Cargo.toml
if [[ -z ${RUBY-} ]]; then
  exports=$(scripts/ruby/env.sh --no-library)
  eval "$exports"
  RUBY=$RUBY_STOCK
fi
export RUBY
extension=$(scripts/wordmap/ruby-extension.sh)
"$RUBY" -I "$extension" ruby/wordmap-ext/test/test_wordmap.rb
