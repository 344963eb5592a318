# shellcheck shell=bash disable=SC2154
# Gems that programs need and the measured Ruby lacks. A release of Ruby bundles them; a checkout of its repository does not,
# and rdoc, logger and benchmark are bundled gems since 4.0. Sourced after messages.sh and setup.sh.

# use_bundled_gems NAME...: puts those that RUBY_STOCK lacks into RUBYLIB, from the folder BUNDLED_GEMS or from Ruby's source.
use_bundled_gems() {
  local name found folder=${BUNDLED_GEMS:-$RUBY_SOURCE/.bundle/gems}
  for name in "$@"; do
    ! "$RUBY_STOCK" -e 'require ARGV[0]' "$name" 2>/dev/null || continue
    found=$(find "$folder" -maxdepth 1 -name "$name-[0-9]*" 2>/dev/null | head -n 1)
    [[ $found ]] || fail "this Ruby lacks the gem $name, and so does $folder." \
      'BUNDLED_GEMS may name a folder with the gems that a release bundles.'
    export RUBYLIB=$found/lib${RUBYLIB:+:$RUBYLIB}
  done
}
