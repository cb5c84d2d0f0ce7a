#!/usr/bin/env bash
# Plays the incident of doc/recipes.md on a server: a job hangs under its lock, and the commands of
# the page find it and end its lock. usage: incident.sh SOURCE SERVER HOLDFAST
set -eu -o pipefail
source=$1 server=$2 holdfast=$3
work=$(mktemp -d)
pids=()
cleanup() {
    for pid in "${pids[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
    rm -rf "$work"
}
trap cleanup EXIT
fail() { printf 'incident: %s\n' "$*" >&2; exit 1; }

# Only the kernel's answer to a bind says that a port is free.
for _ in 1 2 3 4 5 6 7 8 9 10; do
    port=$((20000 + RANDOM % 20000))
    "$server" --port $port --bind 127.0.0.1 --dir "$work" --save '' --appendonly no \
        >"$work/server.log" 2>&1 &
    pid=$!
    disown
    until grep -q 'Ready to accept' "$work/server.log"; do
        kill -0 $pid 2>/dev/null || continue 2
        read -r -t 0.02 <> <(:) || true
    done
    break
done
pids+=("$pid")
kill -0 "$pid" 2>/dev/null || { cat "$work/server.log" >&2; fail "no server"; }

export HOLDFAST_INSTANCES=127.0.0.1:$port HOLDFAST_NEW_SERVERS=yes
mkdir "$work/bin"
ln -s "$holdfast" "$work/bin/holdfast"
PATH=$work/bin:$PATH

# The job that hangs tells when it has the lock.
mkfifo "$work/begun"
holdfast run report -- sh -c "echo >'$work/begun'; exec sleep 600" 2>"$work/job.log" &
HUNG=$!
disown
export HUNG
pids+=("$HUNG")
read -r <"$work/begun"

# The blocks of code under the heading, one after the other.
commands=$(awk '
    /^## / { inside = $0 == "## An incident at night" }
    inside && /^```/ { open = $0 == "```sh"; next }
    inside && open { print }' "$source/doc/recipes.md")
[[ $commands == *'holdfast release report --force'* ]] || fail "no release in: $commands"
said=$(bash -euc "$commands" 2>&1) || fail "$commands: $said"
# The page promises: the holder with its process, and a free lock in the end.
[[ $said == *"@$HUNG"* ]] || fail "the label of the holder does not name process $HUNG: $said"
[[ ${said##*released report} == *free* ]] || fail "the lock is not free: $said"
# The next one begins.
[ "$(holdfast run report --no-wait -- echo next)" = next ] || fail "the next one does not begin"
