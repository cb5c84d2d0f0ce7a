#!/usr/bin/env bash
# The first steps of doc/quick-start.md, as a reader takes them: the server that tools/setup leaves,
# and the first program of the README in a project of its own. Another port and the folders of the
# test are put in place of those on the page.
# usage: first_lock.sh SOURCE WORK PREFIX BOOST_PREFIX COMPILER
#   PREFIX is an installation of holdfast, BOOST_PREFIX what CMAKE_PREFIX_PATH is for Boost.
set -eu -o pipefail
source=$1 work=$2 prefix=$3 boost=$4 compiler=$5
page=$source/doc/quick-start.md

fail() { printf 'first_lock: %s\n' "$*" >&2; exit 1; }

rm -rf "$work"
mkdir -p "$work/project"
pid=
cleanup() { [ -z "$pid" ] || kill "$pid" 2>/dev/null || true; }
trap cleanup EXIT

# block HEADING N: the n-th block of code below the heading.
block() {
    awk -v heading="## $1" -v wanted="$2" '
        /^## / { inside = $0 == heading }
        inside && /^```/ { if (open) { open = 0 } else { open = 1; n++ }; next }
        inside && open && n == wanted { print }' "$page"
}

command=$(block 'Start a server' 1)
[[ $command == *' --port 6379 '* ]] || fail "$page starts no server on port 6379: $command"
# Only the kernel's answer to a bind says that a port is free.
for _ in 1 2 3 4 5 6 7 8 9 10; do
    port=$((20000 + RANDOM % 20000))
    (cd "$source" && eval "exec ${command/ --port 6379 / --port $port } --dir '$work'") \
        >"$work/server.log" 2>&1 &
    pid=$!
    until grep -q 'Ready to accept' "$work/server.log"; do
        kill -0 "$pid" 2>/dev/null || continue 2
        read -r -t 0.02 <> <(:) || true
    done
    break
done
kill -0 "$pid" 2>/dev/null || { cat "$work/server.log" >&2; fail "no server: $command"; }

block 'Take a lock' 1 >"$work/project/CMakeLists.txt"
grep -q 'find_package(holdfast' "$work/project/CMakeLists.txt" ||
    fail "$page shows no CMakeLists.txt"
cmake -D "documents=$source/README.md" -D "program=$work/project/first.cpp" \
    -P "$source/test/readme.cmake"
commands=$(block 'Take a lock' 2)
commands=${commands//\/opt\/holdfast/$prefix}
commands=${commands//\/path\/to\/boost/$boost}
[[ $commands == *"$prefix"* && $commands == *"$boost"* ]] || fail "no folders in: $commands"
said=$(cd "$work/project" && CXX=$compiler HOLDFAST_README_INSTANCE=127.0.0.1:$port \
    bash -ec "$commands" 2>&1) || fail "$commands: $said"
[[ $said == *'seat 12 is ours'* ]] || fail "the program did not get its lock: $said"
