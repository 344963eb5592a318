# shellcheck shell=bash
# Words for a person, always on standard error: standard output belongs to results.

say() { printf 'ashlar: %s\n' "$*" >&2; }

# fail MESSAGE...: one line per argument, exit status 2 (something the user must change).
fail() {
  local line
  for line in "$@"; do say "$line"; done
  exit 2
}

# A script that stops for a reason nobody foresaw says where.
set -E
trap 'unforeseen $? "${BASH_SOURCE[0]##*/}:$LINENO" "$BASH_COMMAND"' ERR
unforeseen() { say "unexpected failure (status $1) at $2: ${3%%$'\n'*}"; }

# elapsed SECONDS -> m:ss
elapsed() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

# progress_line LABEL DONE TOTAL START_SECONDS
progress_line() {
  local percent=$(($3 > 0 ? $2 * 100 / $3 : 0)) filled bar
  ((percent > 99)) && percent=99
  filled=$((percent / 4))
  printf -v bar '%*s' "$filled" ''
  printf '%-28s [%-25s] %3d %%  %s' "$1" "${bar// /#}" "$percent" "$(elapsed $((SECONDS - $4)))"
}

# run_logged LABEL EXPECTED_LINES LOG COMMAND...
# Runs the command with its output appended to LOG, showing a bar on a terminal and a
# line every 20 seconds elsewhere; the share done is LOG's new lines over EXPECTED_LINES.
# The command gets its own process group, which is ended with this shell.
run_logged() {
  local label=$1 expected=$2 log=$3 start=$SECONDS pid status=0 lines before shown=0
  shift 3
  touch "$log"
  before=$(wc -l <"$log")
  setsid "$@" >>"$log" 2>&1 </dev/null &
  pid=$!
  # shellcheck disable=SC2064
  trap "kill -TERM -$pid 2>/dev/null; exit 130" INT TERM HUP
  while kill -0 "$pid" 2>/dev/null; do
    lines=$(($(wc -l <"$log") - before))
    if [[ -t 2 ]]; then
      printf '\r%s' "$(progress_line "$label" "$lines" "$expected" "$start")" >&2
    elif ((SECONDS - start >= shown + 20)); then
      shown=$((SECONDS - start))
      printf '%s\n' "$(progress_line "$label" "$lines" "$expected" "$start")" >&2
    fi
    sleep 0.5
  done
  wait "$pid" || status=$?
  trap - INT TERM HUP
  [[ -t 2 ]] && printf '\r\033[K' >&2
  if ((status)); then
    say "$label failed (status $status); the end of $log:"
    tail -n 25 "$log" >&2
    exit 1
  fi
  say "$label: done in $(elapsed $((SECONDS - start)))"
}

# hold_lock NAME: waits for the lock and keeps it until release_lock, or until this shell
# and everything it started has ended, so an orphaned build still keeps others out.
hold_lock() {
  mkdir -p "$LOCKS"
  exec {LOCK_DESCRIPTOR}>"$LOCKS/$1.lock"
  if ! flock -n "$LOCK_DESCRIPTOR"; then
    say "waiting for another process that works on $1"
    flock "$LOCK_DESCRIPTOR"
  fi
}

# release_lock: the one taken last, if one was taken.
release_lock() { [[ ! ${LOCK_DESCRIPTOR-} ]] || exec {LOCK_DESCRIPTOR}>&-; }
