# shellcheck shell=bash
# The Rails application that the journeys run: workloads/applications/tracker under puma with two forked workers, with a Gemfile, and gems
# that were installed for stock Ruby: `gem install` puts the first line of stock Ruby into puma's programs and compiles its extension.
# Sourced after installed.sh. It needs Debian, for the gems.

# shellcheck source=scripts/bench/debian-gems.sh disable=SC2154 # installed.sh sets it
. "$here_journeys/../../bench/debian-gems.sh"

# Raise when what is below makes something else.
JOURNEY_RECIPE=2
PORT=${PORT:-9292}
PAGES=(/ /issues /issues/5 /projects/3 /issues.json)

# puma_gem: built from its source and installed as a user does.
puma_gem() {
  local source=$folder/puma
  pinned_tarball puma
  mkdir -p "$source"
  tar -xf "$TARBALL" -C "$source" --strip-components=1 --no-same-owner
  cd "$source" || return
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
  # Its extension is configured with this gem.
  sed -i 's/^end$/  gem.add_dependency "mini_portile2"\nend/' "$gems"/specifications/nokogiri-*.gemspec
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
source "https://rubygems.org"
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

# prepare_application: the gems in $gems, and the records in $TRACKER_DATABASE.
prepare_application() {
  local exports
  type -P python3 git >/dev/null || fail 'this needs python3 and git.'
  is_debian || fail 'this needs Debian, whose packages have the gems.'
  ensure_rubies
  release_lock
  exports=$("$here_journeys/../../bench/tracker.sh")
  eval "$exports"
  the_gems
}
