# shellcheck shell=bash
# Where each journey begins: sourcing it gives what rubies.sh gives, and the functions below.

here_journeys=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/ruby/rubies.sh
. "$here_journeys/../../ruby/rubies.sh"

# begin_journey NAME: sets `work`, a folder that is removed at the end, and `left`, one that is kept for a look (build/journeys/NAME).
# shellcheck disable=SC2034
begin_journey() {
  left=$CLONE/build/journeys/$1
  rm -rf "$left"
  mkdir -p "$left"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  unset RUBYLIB RUBYOPT BUNDLE_GEMFILE GEM_HOME GEM_PATH
}

# install_ruby: sets `installed`, a folder with Ruby with Ashlar: $INSTALLED, or a fresh installation.
install_ruby() {
  installed=${INSTALLED:-$work/ruby}
  [[ ${INSTALLED-} ]] || make -C "$CLONE" --no-print-directory install PREFIX="$installed"
}
