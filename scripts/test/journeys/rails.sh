#!/usr/bin/env bash
# Somebody with a Rails application tries Ashlar on it, from nothing: Ruby with Ashlar is installed, and one command
# runs their application on both. The application is workloads/applications/tracker under puma with two forked workers,
# with a Gemfile, and gems that were installed for stock Ruby: `gem install` puts the first line of stock Ruby into puma's
# programs and compiles its extension.
#   scripts/test/journeys/rails.sh
# What it leaves to be looked at is in build/journeys/rails: try.txt, try.html, try.json.
# Environment: INSTALLED, a folder with Ruby with Ashlar, in place of a fresh installation. It needs Debian, for the gems.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/test/journeys/installed.sh
. "$here/installed.sh"
# shellcheck source=scripts/bench/debian-gems.sh
. "$here/../../bench/debian-gems.sh"

# Raise when what is below makes something else.
JOURNEY_RECIPE=1
PORT=${PORT:-9292}
PAGES=(/ /issues /issues/5 /projects/3 /issues.json)

# puma_gem: built from its source and installed as a user does.
puma_gem() {
  local source=$folder/puma
  pinned_tarball puma
  mkdir -p "$source"
  tar -xf "$TARBALL" -C "$source" --strip-components=1 --no-same-owner
  cd "$source"
  # Its gemspec asks git which files it has.
  git init -q .
  git add -A
  "$RUBY_STOCK" -S gem build puma.gemspec
  GEM_HOME=$gems "$RUBY_STOCK" -S gem install --local --ignore-dependencies --no-document puma-*.gem
}

# nio4r_gem: what is written in Ruby, of a package that was compiled for another Ruby.
nio4r_gem() {
  local found
  download_packages ruby-nio4r
  dpkg -x "$folder"/packages/ruby-nio4r_*.deb "$folder/tree"
  found=$(find "$folder/tree" -path '*/gems/nio4r-*' -prune | head -n 1)
  cp -r "$found" "$gems/gems/"
  gem_specification nio4r "${found##*-}"
}

# rails_gems: those of scripts/bench/rails.sh; of some the package has the files elsewhere.
rails_gems() {
  local specification name
  cp -rn "$RAILS_GEM_PATH/." "$gems/"
  for specification in "$gems"/specifications/*.gemspec; do
    name=$(basename "$specification" .gemspec)
    [[ -d $gems/gems/$name ]] || {
      mkdir "$gems/gems/$name"
      cp -r "$RAILS_RUBYLIB" "$gems/gems/$name/lib"
    }
  done
}

# the_gems: a folder as GEM_HOME names one.
the_gems() {
  folder=$CACHE/applications/journey-$SOURCE_ID-r$JOURNEY_RECIPE
  gems=$folder/gems
  export RUBY_STOCK RAILS_GEM_PATH RAILS_RUBYLIB
  [[ -e $folder/finished ]] || (
    hold_lock journey-rails
    [[ ! -e $folder/finished ]] || exit 0
    begin_folder
    step 'puma' 30 puma_gem
    step 'nio4r' 5 nio4r_gem
    step 'Rails' 5 rails_gems
    rm -rf "$folder/puma"
    finish_folder
  ) || exit
}

# the_application FOLDER
the_application() {
  mkdir -p "$1"
  cp -r "$CLONE/workloads/applications/tracker/." "$1"
  cat >"$1/Gemfile" <<'GEMFILE'
gem "railties", "~> 7.2"
gem "activerecord"
gem "actionmailer"
gem "activejob"
gem "sqlite3"
gem "puma"
gem "kramdown"
gem "rouge"
GEMFILE
  cat >"$1/config/puma.rb" <<'PUMA'
port ENV.fetch("PORT"), "127.0.0.1"
workers 2
threads 3, 3
preload_app!
PUMA
  cp "$TRACKER_DATABASE" "$1/tracker.sqlite3"
}

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

command -v python3 git >/dev/null || fail 'this needs python3 and git.'
is_debian || fail 'this needs Debian, whose packages have the gems.'
ensure_rubies
release_lock
exports=$("$here/../../bench/tracker.sh")
eval "$exports"
the_gems

# From here on it is what somebody types.
begin_journey rails
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
