# shellcheck shell=bash
# Where each journey begins: sourcing it gives what rubies.sh gives, `work`, a folder that is removed at the end, `left`, one that is
# kept for a look (build/journeys/NAME), and `installed`, a folder with Ruby with Ashlar: $INSTALLED, or a fresh installation.

here_journeys=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/ruby/rubies.sh
. "$here_journeys/../../ruby/rubies.sh"

# begin_journey NAME
# shellcheck disable=SC2034
begin_journey() {
  left=$CLONE/build/journeys/$1
  rm -rf "$left"
  mkdir -p "$left"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  installed=${INSTALLED:-$work/ruby}
  [[ ${INSTALLED-} ]] || make -C "$CLONE" --no-print-directory install PREFIX="$installed"
  unset RUBYLIB RUBYOPT BUNDLE_GEMFILE GEM_HOME GEM_PATH
}
