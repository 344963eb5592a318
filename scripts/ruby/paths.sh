# shellcheck shell=bash disable=SC2034
# Where things are. Sourced by the other scripts; sets variables, touches nothing.

# Eight digits that name what is read from standard input.
digest8() { sha256sum | cut -c1-8; }

# Where nobody has set HOME, as in a service or a bare container, the account's own folder.
[[ ${HOME-} ]] || { unset HOME; HOME=~; }

CLONE=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
CACHE=${ASHLAR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ashlar}
SOURCES=$CACHE/sources
# What is made for another machine (cross.sh) lies beside what is made for this one.
RUBIES=$CACHE/rubies${ASHLAR_MACHINE:+-$ASHLAR_MACHINE}
BUILD=$CLONE/build${ASHLAR_MACHINE:+/$ASHLAR_MACHINE}
LOCKS=$CACHE/locks

# The series of Ruby that the collector is written for, and the oldest Rust that builds it.
RUBY_SERIES=(3.4 4.0)
RUST_MINIMUM=1.85

# Every clone installs its library under a name of its own beside the shared
# `ashlar`, so that two clones can use one cached Ruby without meeting.
# Ruby allows letters, digits, dash and underscore in the name.
CLONE_LIBRARY=ashlar_$(printf %s "$CLONE" | digest8)

# ruby_series: as in a sentence, 3.4 or 4.0.
ruby_series() {
  local all=${RUBY_SERIES[*]}
  echo "${all// / or }"
}

# ruby_is_supported VERSION
ruby_is_supported() { [[ " ${RUBY_SERIES[*]} " == *" ${1%.*} "* ]]; }
