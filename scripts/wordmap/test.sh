#!/usr/bin/env bash
# The word map's tests: Rust's, and the Ruby class where there is a Ruby.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo test --release --quiet -p ashlar-wordmap
if command -v "${RUBY:-ruby}" >/dev/null && "${RUBY:-ruby}" -rmkmf -e 'exit File.exist?(RbConfig::CONFIG["rubyhdrdir"] + "/ruby.h")' >/dev/null 2>&1; then
    extension="$(scripts/wordmap/ruby-extension.sh 2>/dev/null)"
    "${RUBY:-ruby}" -I "$extension" ruby/wordmap-ext/test/test_wordmap.rb
else
    echo "ruby/wordmap-ext: SKIPPED, no ruby with headers (set RUBY or install ruby and ruby-dev)"
fi
