#!/usr/bin/env bash
# Prints shell exports for the Rubies and the collector library, building what is missing:
#   eval "$(make -s env)"
#   eval "$(scripts/ruby/env.sh --modular)"       without the Ruby with Ashlar inside; also what no argument says
#   eval "$(scripts/ruby/env.sh --no-library)"    only the Rubies that have nothing of ours
#   eval "$(scripts/ruby/env.sh --only-inside)"   without the modular Ruby, whose making takes minutes, and the library
#   eval "$(scripts/ruby/env.sh --only-stock)"    the stock one alone
# RUBY                the modular Ruby; RUBY_GC_LIBRARY=ashlar makes it run on Ashlar
# RUBY_STOCK          the same version built without modular collectors
# RUBY_INSIDE         the same version with this clone's Ashlar inside
# RUBY_INSIDE_BUILD   a build tree with it, from which Ruby's own tests run
# RUBY_BASE, RUBY_BASE_BUILD   the Ruby that it is linked from, and its build tree: the stock
#                     one, or with SHARED=yes one with a libruby.so
# ASHLAR_LIB          this clone's collector library
# ASHLAR_GC_LIBRARY   the name under which RUBY loads this very clone's library; `ashlar`
#                     is the one made last by any clone that shares the cache
# RUBY_SOURCE, RUBY_BUILD, ASHLAR_RUBY_CFLAGS   the trees RUBY was built from and in, and
#                     the include flags for code that needs its internal headers
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/ruby/rubies.sh
. "$here/rubies.sh"
# shellcheck source=scripts/ruby/library.sh
. "$here/library.sh"
# shellcheck source=scripts/ruby/inside.sh
. "$here/inside.sh"

case ${1-} in
  '' | --modular | --inside | --only-inside | --only-stock | --no-library) ;;
  *) fail "unknown argument '$1'; env.sh takes --modular, --inside, --only-inside, --only-stock, --no-library or nothing." ;;
esac
names=(RUBY_STOCK RUBY_SOURCE)
if [[ ${1-} == --only-* ]]; then
  ensure_stock
else
  ensure_rubies
  ASHLAR_RUBY_CFLAGS=$(ruby_include_flags)
  ASHLAR_GC_LIBRARY=$CLONE_LIBRARY
  names+=(RUBY RUBY_BUILD ASHLAR_RUBY_CFLAGS)
  if [[ ${1-} != --no-library ]]; then
    ensure_library
    names+=(ASHLAR_LIB ASHLAR_GC_LIBRARY)
  fi
fi
if [[ ${1-} == *-inside ]]; then
  release_lock
  ensure_inside
  names+=(RUBY_INSIDE RUBY_INSIDE_BUILD RUBY_BASE RUBY_BASE_BUILD)
fi
for name in "${names[@]}"; do printf 'export %s=%q\n' "$name" "${!name}"; done
