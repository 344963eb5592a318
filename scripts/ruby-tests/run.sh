#!/usr/bin/env bash
# Runs Ruby's own tests on Ashlar and says how they differ from the default collector.
#   scripts/ruby-tests/run.sh quick
#   scripts/ruby-tests/run.sh core
#   scripts/ruby-tests/run.sh full
#   scripts/ruby-tests/run.sh full --only test-all/ruby/test_gc.rb
#   scripts/ruby-tests/run.sh quick --collector inside
#   scripts/ruby-tests/run.sh quick --collector default    nothing of ours: the collector as a module,
#   scripts/ruby-tests/run.sh quick --collector stock      or compiled in
# `run.sh --help` tells the rest.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
environment=()
for argument in "$@"; do
  case ${argument#--collector=} in
    inside | stock) environment=(--inside) ;;
    default) environment=(--no-library) ;;
  esac
done
exports=$("$here/../ruby/env.sh" "${environment[@]}")
eval "$exports"
ulimit -c 0
exec "$RUBY_STOCK" --disable-gems "$here/main.rb" "$@"
