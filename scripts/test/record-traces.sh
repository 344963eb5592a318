#!/usr/bin/env bash
# Records the programs that crates/heap/tests/pacing_recorded.rs replays, with the Ruby that has Ashlar inside: how
# record_trace.py does it. Takes about ten minutes, in which nothing else should run. Words name programs; all unless given.
#   make record-traces
#   make record-traces PROGRAMS="document splay"
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
clone=$PWD
exports=$(scripts/ruby/env.sh --only-inside)
eval "$exports"
traces=$clone/crates/heap/tests/recorded/traces
export PYTHONPATH=$clone/lab/src

# record NAME FOLDER COMMAND...: a Ruby program, started in this folder of workloads.
record() {
  (cd "$clone/workloads/$2" && "$clone/scripts/test/record_trace.py" "$traces/$1.txt" "$RUBY_INSIDE" -W0 "${@:3}")
}

record_one() {
  local exports
  case $1 in
    redmine)
      exports=$(scripts/bench/redmine.sh)
      eval "$exports"
      export REDMINE_FOLDER REDMINE_DATABASE
      GEM_PATH=$REDMINE_GEM_PATH RUBYLIB=$REDMINE_RUBYLIB record redmine applications in_rounds.rb redmine 2
      ;;
    rails)
      exports=$(scripts/bench/tracker.sh)
      eval "$exports"
      export TRACKER_DATABASE
      GEM_PATH=$RAILS_GEM_PATH RUBYLIB=$RAILS_RUBYLIB BUNDLE_GEMFILE=$RAILS_GEMFILE record rails applications tracker.rb
      ;;
    boot) record boot applications boot.rb ;;
    request-and-cache) record request-and-cache applications request_cache.rb ;;
    document) record document applications document_parser.rb ;;
    job-worker) record job-worker applications job_worker.rb ;;
    interpreted-pages) record interpreted-pages applications interpreted_pages.rb ;;
    splay) record splay ruby splay.rb ;;
  esac
}

programs='redmine rails boot request-and-cache document job-worker interpreted-pages splay'
for program; do
  [[ " $programs " == *" $program "* ]] && continue
  printf "record-traces.sh: PROGRAMS='%s' names none of %s\n" "$program" "$programs" >&2
  exit 2
done
# shellcheck disable=SC2086 # words
(($# > 0)) || set -- $programs
for program; do
  record_one "$program"
done
