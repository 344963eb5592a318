#!/usr/bin/env bash
# Measures the programs of workloads/applications, or one of your own, under stock Ruby, stock
# with jemalloc or fewer arenas, and Ashlar; prints tables that can be pasted, writes a page,
# and records a whole run under bench/results/. PROGRAMS and VARIANTS may name what any of the
# experiments there has; each experiment that has some of it is run. Environment, beside what
# measure.sh reads:
#   APP        a program or an application of your own; application.rb says what it may be
#   RAILS_FROM where Rails comes from: rails.sh
#   ROUNDS     of the programs of settled.toml that go in rounds; 20 unless given
#   BASELINE   the variant that is 1.00; stock unless given
# For example
#   make bench-applications PROGRAMS="rails png" BLOCKS=5
#   make bench-applications PROGRAMS="redmine redmine-forked" VARIANTS="stock inside"
#   make bench-applications CURVES=only PROGRAMS=rails
#   make bench-applications APP=~/src/optcarrot APP_ARGUMENTS="--benchmark examples/Lan_Master.nes"
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/ruby/paths.sh
. "$here/../ruby/paths.sh"
# shellcheck source=scripts/ruby/messages.sh
. "$here/../ruby/messages.sh"
# shellcheck source=scripts/ruby/packages.sh
. "$here/../ruby/packages.sh"
# shellcheck source=scripts/bench/bundle.sh
. "$here/bundle.sh"
trap - ERR # what is run here says itself what was wrong

case ${CURVES-} in
  '' | yes | no | only) ;;
  *) fail "CURVES='$CURVES' is none of yes, no and only." ;;
esac
[[ -z ${APP-} || -e $APP ]] || fail "APP='$APP' does not exist; give the path of a Ruby file, an executable, or an application's folder."
# shellcheck source=scripts/bench/experiments.sh
. "$here/experiments.sh"
experiments=$CLONE/workloads/applications
read -ra asked_programs <<<"${PROGRAMS-}"
read -ra asked_variants <<<"${VARIANTS-}"
# A wrong name is told before anything is built.
files=("$experiments"/{applications,settled,curves,settled_curves}.toml)
if [[ -z ${APP-} ]]; then
  refuse_unknown program PROGRAMS "${asked_programs[@]}"
  refuse_unknown variant VARIANTS "${asked_variants[@]}"
fi
# shellcheck disable=SC2034 # setup.sh
measured="stock ashlar inside"
# shellcheck source=scripts/bench/setup.sh
. "$here/setup.sh"
# shellcheck source=scripts/bench/measure.sh
. "$here/measure.sh"
# shellcheck source=scripts/bench/bundled-gems.sh
. "$here/bundled-gems.sh"
blocks=()
[[ -z ${BLOCKS-} ]] || blocks=(--blocks "$BLOCKS")

# The library that stands for jemalloc; the lab is told where it is.
ensure_jemalloc() {
  local found
  find_jemalloc() { find /usr/lib /usr/lib64 /usr/local/lib -name 'libjemalloc.so.2' 2>/dev/null | head -n 1; }
  found=$(find_jemalloc)
  if [[ -z $found ]] && is_debian; then
    install_packages 'the variant stock-jemalloc' libjemalloc2
    found=$(find_jemalloc)
  fi
  [[ $found ]] || fail 'the variant stock-jemalloc needs libjemalloc.so.2, which is not installed.' \
    'Leave it out with VARIANTS="stock stock-2-arenas ashlar inside ashlar-preloaded".'
  export JEMALLOC=$found
}

# The gems of an application's Gemfile, for the Ruby under test, beside the others in the cache.
ensure_gems() {
  local gemfile=$1 identity
  # RUBY_STOCK's path names its version and source. There need not be a lock file.
  identity=$({ printf '%s\n' "$gemfile" "$RUBY_STOCK"; cat "$gemfile" "$gemfile.lock" 2>/dev/null || true; } | digest8)
  export APP_GEM_HOME=$CACHE/applications/gems-$identity
  [[ ! -e $APP_GEM_HOME/finished ]] || return 0
  bundle_install "$RUBY_STOCK" "$gemfile" "$APP_GEM_HOME" 'gems of the application' ||
    fail "The gems that $gemfile names could not be installed (the log is $APP_GEM_HOME.log)." \
      'APP_BUNDLE=0 runs without Bundler, with GEM_PATH and RUBYLIB as your shell has them.'
  touch "$APP_GEM_HOME/finished"
}

if [[ -n ${APP-} ]]; then
  [[ -n ${VARIANTS-} && " $VARIANTS " != *' stock-jemalloc '* ]] || ensure_jemalloc
  gemfile=$("$RUBY_STOCK" "$here/application.rb" gemfile)
  [[ -z $gemfile ]] || ensure_gems "$gemfile"
  [[ -n ${RECORD-} ]] || record=
  for template in applications curves; do
    case $template:${CURVES:-no} in applications:only | curves:no) continue ;; esac
    name=application
    [[ $template != curves ]] || name=application-curves
    experiment=$("$RUBY_STOCK" "$here/application.rb" experiment "$experiments/$template.toml")
    printf '%s\n' "$experiment" >"$results/$name.toml"
    measure "$name" "$results/$name.toml" "${selection[@]}"
  done
  exit
fi

files=()
# shellcheck disable=SC2154 # points, curves: measure.sh
[[ -z $points ]] || files+=("$experiments"/{applications,settled}.toml)
[[ -z $curves ]] || files+=("$experiments"/{curves,settled_curves}.toml)
choose_all
programs=$(printf '%s,' "${programs_of[@]}") variants=$(printf '%s,' "${variants_of[@]}")
if needed "$programs" redmine; then
  exports=$("$here/redmine.sh")
  eval "$exports"
fi
if needed "$programs" rails; then
  exports=$("$here/tracker.sh")
  eval "$exports"
fi
! needed "$variants" stock-jemalloc || ensure_jemalloc
# What shop.rb and forked_site.rb load.
case ,$programs in *,forked-site,* | *,small-site,*) use_bundled_gems logger rdoc racc ;; esac

for file in "${files[@]}"; do
  [[ ${programs_of[$file]-} ]] || continue
  name=$(awk -F'"' '/^name = /{print $2; exit}' "$file")
  measure "$name" "$file" --programs "${programs_of[$file]}" --variants "${variants_of[$file]}" "${blocks[@]}"
done
