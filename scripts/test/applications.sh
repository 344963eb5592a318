#!/usr/bin/env bash
# Tries the claims about the applications that are measured. Those about Rails are tried on
# Debian, whose packages are fetched once, or with RAILS_FROM=rubygems; those about Redmine with
# REDMINE=yes, on Debian.
#   scripts/test/applications.sh [PART OF A CLAIM]
# The environment is what `make env` prints.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/ruby/paths.sh
. "$here/../ruby/paths.sh"
# shellcheck source=scripts/ruby/messages.sh
. "$here/../ruby/messages.sh"
trap - ERR # what is run here says itself what was wrong
# shellcheck source=scripts/bench/bundled-gems.sh
. "$here/../bench/bundled-gems.sh"
use_bundled_gems logger rdoc racc # what shop.rb loads
if [[ -n ${RAILS_FROM-} || -e /etc/debian_version ]]; then
  exports=$("$here/../bench/tracker.sh")
  eval "$exports"
fi
if [[ ${REDMINE-} == yes ]]; then
  exports=$("$here/../bench/redmine.sh")
  eval "$exports"
fi
"$RUBY_STOCK" "$here/applications.rb" "$@"
