#!/usr/bin/env bash
# Somebody with a Rails application tries Ashlar on it, from nothing: Ruby with Ashlar is installed, and one command
# runs their application on both.
#   scripts/test/journeys/rails.sh
# What it leaves to be looked at is in build/journeys/rails: try.txt, try.html, try.json.
# Environment: INSTALLED, a folder with Ruby with Ashlar, in place of a fresh installation. It needs Debian, for the gems.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/test/journeys/installed.sh
. "$here/installed.sh"
# shellcheck source=scripts/test/journeys/rails_application.sh
. "$here/rails_application.sh"

# check FILE: what the report must say.
check() {
  python3 - "$1" "$RUBY_STOCK" "$installed/bin/ruby" <<'PYTHON'
import json, os, sys

told = json.load(open(sys.argv[1]))
meant = {"stock": os.path.realpath(sys.argv[2]), "ashlar": os.path.realpath(sys.argv[3])}


def want(claim, holds):
    if not holds:
        sys.exit(f"journeys/rails.sh: {claim}: not so; see {sys.argv[1]}")


want("both sides ran", [run["side"] for run in told["runs"]] == ["stock", "ashlar"])
for run in told["runs"]:
    side = run["side"]
    want(f"{side} ran the Ruby that was meant and no other", list(run["programs"]) == [meant[side]])
    want(f"every request on {side} was answered", set(run["statuses"]) == {"200"} and not run["failures"])
    want(f"{side} had two workers", run["samples"][-1]["workers"] == 2)
    want(f"all three processes on {side} told what their collector did", run["collected"]["processes"] == 3 and run["collected"]["silent"] == 0)
for name in ("memory", "workers_dirty", "cpu_s", "collector_s", "p50_s"):
    want(f"{name} is among the figures of both", all(told["figures"][name][side] for side in meant))
print("\n".join(told["verdict"]))
PYTHON
}

prepare_application

# From here on it is what somebody types.
begin_journey rails
install_ruby
the_application "$work/app"
cd "$work/app"
# Their shell: stock Ruby on the PATH, gems in a folder of their own and in Ruby's.
PATH=$(dirname "$RUBY_STOCK"):$PATH
GEM_HOME=$gems
GEM_PATH=$("$RUBY_STOCK" -e 'print Gem.default_dir')
export PATH GEM_HOME GEM_PATH PORT TRACKER_DATABASE=$work/app/tracker.sqlite3 NIO4R_PURE=true BUNDLE_SILENCE_ROOT_WARNING=1
bundle install --local --quiet
"$installed/bin/ashlar" try "${PAGES[@]/#/--get=}" --seconds 20 --form terminal,html,json --output "$left/try" -- \
  bundle exec puma -C config/puma.rb | tee "$left/try.txt"
check "$left/try.json"
grep -q 'private dirty of workers' "$left/try.txt" || fail "the table in $left/try.txt lacks the workers"
[[ ! $(ss -Hltn "sport = :$PORT" 2>/dev/null) ]] || fail "something still listens at port $PORT"
echo "a Rails application under puma was tried on both; $left/try.html is the page"
