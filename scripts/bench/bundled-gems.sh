# shellcheck shell=bash disable=SC2154
# Gems that programs need and the measured Ruby lacks: rdoc, logger and benchmark are bundled gems since 4.0. Sourced after
# messages.sh, with RUBY_STOCK set.

# shellcheck source=scripts/ruby/bundled-gems.sh
. "$(dirname "${BASH_SOURCE[0]}")/../ruby/bundled-gems.sh"

# use_bundled_gems NAME...: puts those that RUBY_STOCK lacks into RUBYLIB.
use_bundled_gems() {
  local name found
  for name in "$@"; do
    ! "$RUBY_STOCK" -e 'require ARGV[0]' "$name" 2>/dev/null || continue
    found=$(bundled_gem "$name")
    [[ $found ]] || fail "this Ruby lacks the gem $name, and so does $(bundled_gems_folder)." \
      'BUNDLED_GEMS may name a folder with the gems that a release bundles.'
    export RUBYLIB=$found/lib${RUBYLIB:+:$RUBYLIB}
  done
}
