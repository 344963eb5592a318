#!/usr/bin/env bash
# Makes the records of workloads/applications/tracker in the cache, once for each state of what
# they are made from, and prints what rails.sh prints and
# TRACKER_DATABASE   the file with the records
# The environment is what scripts/ruby/env.sh prints.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/ruby/paths.sh
. "$here/../ruby/paths.sh"
# shellcheck source=scripts/ruby/messages.sh
. "$here/../ruby/messages.sh"
tracker=$CLONE/workloads/applications/tracker

exports=$("$here/rails.sh")
eval "$exports"
identity=$(cat "$tracker/db"/*.rb | digest8)
TRACKER_DATABASE=$CACHE/applications/tracker-$identity.sqlite3
hold_lock tracker
[[ -e $TRACKER_DATABASE ]] || run_logged "the tracker's records" 45 "$CACHE/applications/tracker.log" \
  env GEM_PATH="$RAILS_GEM_PATH" RUBYLIB="$RAILS_RUBYLIB" BUNDLE_GEMFILE="$RAILS_GEMFILE" \
  "$RUBY_STOCK" "$tracker/prepare.rb" "$TRACKER_DATABASE"
echo "$exports"
printf 'export TRACKER_DATABASE=%q\n' "$TRACKER_DATABASE"
