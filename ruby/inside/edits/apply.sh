#!/usr/bin/env bash
# Makes edited copies of files of Ruby's source: what a list of edits names, and nothing else.
#   apply.sh EDITS SOURCE FOLDER
# EDITS is a list as ruby_3_4.edits, which says how it is written. Each anchor must be found as
# often as the list says, once unless it says otherwise: a source that has changed there stops
# with one line. SOURCE is only read. FOLDER has the edited files when all edits were made.
set -euo pipefail
edits=$1 source=$2 folder=$3

fail() { printf 'ashlar: %s\n' "$1" >&2; exit 2; }

[[ -r $edits ]] || fail "$edits cannot be read."
rm -rf "$folder.new"
mkdir -p "$folder.new"
while IFS= read -r file; do
  [[ -r $source/$file ]] || fail "${edits##*/} edits $file, which $source does not have."
  mkdir -p "$(dirname "$folder.new/$file")"
  awk -v file="$file" -v list="${edits##*/}" '
    function fail(text) { print "ashlar: " list ": " text > "/dev/stderr"; failed = 1; exit 2 }
    function rest_of(line) { sub(/^[a-z]+( [0-9]+)?: /, "", line); return line }
    # The lines of a function: from its name at the start of a line to the brace that ends it.
    function find_function(name,    i) {
      first = last = 0
      for (i = 1; i <= count; i++) {
        if (!first && index(lines[i], name "(") == 1) first = i
        else if (first && lines[i] == "}") { last = i; return }
      }
      fail(file " has no function " name "; the edits were not made for this source.")
    }
    function end_edit(    i, found, at, part, done) {
      if (verb == "") return
      if (within != "") find_function(within); else { first = 1; last = count }
      if (verb == "behind") after[last] = after[last] "\n" text
      else if (verb == "body") {
        for (i = first; i <= last && lines[i] != "{"; i++) {}
        after[i] = text
        for (i++; i < last; i++) gone[i] = 1
      } else {
        found = 0
        for (i = first; i <= last; i++) {
          if (gone[i]) continue
          part = lines[i]
          while ((at = index(part, anchor)) > 0) { found++; where = i; part = substr(part, at + length(anchor)) }
        }
        if (found != wanted)
          fail(file " has \"" anchor "\" " found " times" (within != "" ? " in " within : "") ", not " wanted "; the edits were not made for this source.")
        if (verb == "before") before[where] = before[where] text
        else if (verb == "after") after[where] = text after[where]
        else if (verb == "instead") { gone[where] = 1; after[where] = text after[where] }
        else for (i = first; i <= last; i++) {
          part = lines[i]; done = ""
          while ((at = index(part, anchor)) > 0) {
            done = done substr(part, 1, at - 1) replacement
            part = substr(part, at + length(anchor))
          }
          lines[i] = done part
        }
      }
      verb = within = anchor = replacement = text = ""; wanted = 1; made++
    }
    FNR == NR { lines[++count] = $0; next }
    /^#/ || /^$/ || /^for / { next }
    /^file / { end_edit(); here = ($2 == file); next }
    !here { next }
    /^because: / { end_edit(); next }
    /^  [a-z]/ { next }
    /^in: / { within = rest_of($0); next }
    /^(before|after|instead|body|behind|change)( [0-9]+)?: / {
      if (verb != "") fail("\"" $0 "\" follows an edit that was not ended by a reason.")
      verb = $1; sub(/:$/, "", verb)
      wanted = 1
      if ($2 ~ /^[0-9]+:$/) { wanted = $2; sub(/:/, "", wanted) }
      anchor = rest_of($0)
      if (verb == "body" || verb == "behind") within = anchor
      next
    }
    /^to: / { replacement = rest_of($0); next }
    /^\|/ { sub(/^\| ?/, ""); text = text $0 "\n"; next }
    { fail("line " FNR " is none that a list of edits has: " $0) }
    END {
      if (failed) exit 2
      end_edit()
      if (failed) exit 2
      for (i = 1; i <= count; i++) printf "%s%s%s", before[i], gone[i] ? "" : lines[i] "\n", after[i]
    }
  ' wanted=1 "$source/$file" "$edits" >"$folder.new/$file" || exit 2
done < <(awk '$1 == "file" {print $2}' "$edits")
rm -rf "$folder"
mv "$folder.new" "$folder"
