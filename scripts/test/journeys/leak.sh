#!/usr/bin/env bash
# Somebody whose program grows looks for the leak, from an installation on, as docs/guide/seeing-memory.md says: two profiles,
# `ashlar heap diff`, a page, a dump and `ashlar retained`. The line that was planted must be named, and a program without it
# must not be accused.
#   scripts/test/journeys/leak.sh
# What it leaves to be looked at is in build/journeys/leak. Environment: INSTALLED, a folder with Ruby with Ashlar, in place of a fresh installation.
set -euo pipefail
# shellcheck source=scripts/test/journeys/installed.sh
. "$(dirname "${BASH_SOURCE[0]}")/installed.sh"

# the_program FILE: it answers requests, remembers the latest thousand, and, if asked, each session for ever.
the_program() {
  cat >"$1" <<'RUBY'
require "ashlar/profile"

LATEST = []
SESSIONS = {}

def answer(number)
  rows = Array.new(40) { |row| { id: row, text: "row #{row} of request #{number} " * 4 } }
  LATEST << rows.map { _1[:text] }.join("\n")
  LATEST.shift if LATEST.size > 1000
  remember(number) if ARGV.include?("leak")
end

def remember(number)
  SESSIONS[number] = "session #{number} " * 300 # the planted line
end

Ashlar::Profile.start
3_000.times { answer(_1) }
4.times { GC.start }
Ashlar::Profile.dump("before.heap")
3_000.upto(9_000) { answer(_1) }
4.times { GC.start }
Ashlar::Profile.dump("after.heap")
GC.config(dump: "app.dump.gz")
RUBY
}

begin_journey leak
install_ruby
cd "$left"
the_program site.rb
planted=$(grep -n 'the planted line' site.rb | cut -d: -f1)
ashlar=$installed/bin/ashlar

"$installed/bin/ruby" site.rb leak
status=0
"$ashlar" heap diff --strict before.heap after.heap >diff.txt || status=$?
[[ $status == 1 ]] || fail "ashlar heap diff --strict ended with $status, not 1, though there is a leak; see $left/diff.txt"
grep -E "leak" diff.txt | grep -q "site.rb:$planted" || fail "no line of $left/diff.txt calls site.rb:$planted a leak"
"$ashlar" heap after.heap --form html --output heap >/dev/null
grep -q "site.rb:$planted" heap.html || fail "$left/heap.html does not name site.rb:$planted"
"$ashlar" retained app.dump.gz >retained.txt
grep -q SESSIONS retained.txt || grep -q Hash retained.txt || fail "$left/retained.txt does not name what keeps the sessions"
mkdir -p without && cd without
"$installed/bin/ruby" ../site.rb
"$ashlar" heap diff --strict before.heap after.heap >diff.txt || fail "a program without a leak is accused of one; see $left/without/diff.txt"
echo "a leak: site.rb:$planted is named by ashlar heap diff, and a program without it is not accused; $left/heap.html is the page"
