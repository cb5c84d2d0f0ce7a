#!/usr/bin/env bash
# Fails when an include, or a clock, crosses a room the wrong way. The rooms of src and what each
# may include are a table in doc/internals/architecture.md; all but src/protocol may include the
# public headers. Beside that:
#   src/protocol   no Asio, no Boost.Redis, no sockets, no clock
#   src/command    the public headers alone
#   include/       public headers only, and no Boost.Redis
#   src            Boost.Redis in codec.hpp and codec.cpp alone
# A room has at most 30 files, and begins with a README.md.
# usage: layers.sh PROJECT | layers.sh --self-test
set -eu -o pipefail

most_files=30

forbid() { # project folder pattern message [file that may]
    local found
    [ -d "$1/$2" ] || { echo "there is no folder $1/$2"; return 1; }
    found=$(grep -rnE "$3" "$1/$2" --include='*.hpp' --include='*.cpp' \
        ${5:+--exclude="$5.?pp"} || true)
    [ -z "$found" ] || { printf '%s: %s\n%s\n' "$2" "$4" "$found"; return 1; }
}

# The rows of the table: "room other other ..". The second cell of a row has the task.
table() { # project
    sed -n '/^## Rooms$/,/^## /p' "$1/doc/internals/architecture.md" |
        awk -F'|' '/^\| `/ { gsub(/[`,]/, " "); print $2, $4 }' |
        sed -E 's/ +/ /g; s/^ //; s/ $//'
}

rooms() { # project
    local bad=0 room others seen files
    seen=$(table "$1")
    [ -n "$seen" ] || { echo 'architecture.md has no table of the rooms'; return 1; }
    while read -r room others; do
        [ -d "$1/src/$room" ] || { echo "there is no room src/$room"; bad=1; continue; }
        [ -s "$1/src/$room/README.md" ] || { echo "src/$room has no README.md"; bad=1; }
        mapfile -d '' -t files < <(find "$1/src/$room" -maxdepth 1 -name '*.?pp' -print0)
        [ ${#files[@]} -le $most_files ] || { echo "src/$room has ${#files[@]} files"; bad=1; }
        awk -v room="$room" -v may=" $room $others " '
            match($0, /^[[:space:]]*#[[:space:]]*include[[:space:]]*"[^"]*\//) {
                path = substr($0, RSTART, RLENGTH - 1)
                sub(/.*"/, "", path)
                if (index(may, " " path " ") == 0) {
                    printf "src/%s may not include %s/: %s:%d\n", room, path, FILENAME, FNR
                    failed = 1
                }
            }
            END { exit failed }' /dev/null "${files[@]}" || bad=1
    done <<<"$seen"
    while read -r room; do
        grep -q "^$room\( \|$\)" <<<"$seen" || { echo "the table has no room src/$room"; bad=1; }
    done < <(cd "$1/src" && find . -name '*.?pp' -not -path './command/*' -printf '%h\n' |
        sort -u | cut -c3-)
    awk '{ for (i = 2; i <= NF; ++i) print $1, $i }' <<<"$seen" | tsort >/dev/null 2>&1 ||
        { echo 'rooms include each other in a circle'; bad=1; }
    return $bad
}

check() {
    local bad=0 inc='^[[:space:]]*#[[:space:]]*include[[:space:]]*' folder
    rooms "$1" || bad=1
    for folder in src include; do
        forbid "$1" $folder "$inc[\"<]\\.\\." \
            'includes name a path from the root of the layers' || bad=1
    done
    forbid "$1" src "$inc<(protocol|redis|runtime|api)/" 'own files are included by "name"' || bad=1
    forbid "$1" src/protocol "$inc[\"<]holdfast/" 'the protocol includes only itself' || bad=1
    forbid "$1" src/protocol "$inc<(boost/(asio|redis)|sys/|netinet/|unistd|time\.h)" \
        'the protocol knows neither Asio nor sockets' || bad=1
    forbid "$1" src/protocol \
        '::now\(|clock_gettime|gettimeofday|[^_a-z]time\((nullptr|NULL|0|&)' \
        'the protocol reads no clock' || bad=1
    forbid "$1" src/command "$inc[\"<](protocol|redis|runtime|api)/" \
        'the command uses the public headers alone' || bad=1
    forbid "$1" src "$inc<boost/redis" 'codec.hpp alone includes Boost.Redis' codec || bad=1
    forbid "$1" include "$inc([\"<](protocol|redis|runtime|api)/|\")" \
        'public headers include public headers' || bad=1
    forbid "$1" include "$inc<boost/redis" 'no public header includes Boost.Redis' || bad=1
    return $bad
}

if [ "$1" = --self-test ]; then
    root=$(mktemp -d)
    trap 'rm -rf "$root"' EXIT
    make_project() {
        rm -rf "$root"/*
        mkdir -p "$root"/src/{protocol/tenure,redis/{net,wire},runtime/engine,api,command} \
            "$root"/include/holdfast "$root"/doc/internals
        printf '%s\n' '## Rooms' '' '| room | task | includes |' '|---|---|---|' \
            '| `protocol` | a | |' '| `protocol/tenure` | b | `protocol` |' \
            '| `redis/wire` | c | `protocol`, `protocol/tenure` |' \
            '| `redis/net` | d | `redis/wire` |' '| `runtime/engine` | e | `redis/net` |' \
            '| `api` | f | `runtime/engine` |' '' '## Others' '' '| `redis` | g | `api` |' \
            >"$root"/doc/internals/architecture.md
        for room in protocol protocol/tenure redis/wire redis/net runtime/engine api; do
            echo "about $room" >"$root/src/$room/README.md"
        done
        echo '#include "protocol/tenure/a.hpp"' >"$root"/src/redis/wire/good.cpp
        check "$root" >/dev/null || { echo 'a good project does not pass'; check "$root"; exit 1; }
    }
    plant() { # file line
        make_project
        mkdir -p "$(dirname "$root/$1")"
        printf '%s\n' "$2" >>"$root/$1"
        ! check "$root" >/dev/null || { echo "not found in $1: $2"; exit 1; }
    }
    plant src/protocol/a.hpp '#include "redis/net/session.hpp"'
    plant src/protocol/a.hpp '#include "protocol/tenure/tenure.hpp"'
    plant src/protocol/a.hpp '#include <holdfast/clock.hpp>'
    plant src/protocol/tenure/a.hpp '#include <boost/asio/post.hpp>'
    plant src/protocol/tenure/a.hpp 'auto t = lease_clock::now();'
    plant src/protocol/a.hpp '#  include "redis/net/session.hpp"'
    plant src/protocol/a.hpp '#include "../redis/net/session.hpp"'
    plant src/protocol/a.hpp 'auto t = std::time(nullptr);'
    plant src/redis/wire/a.cpp '#include "redis/net/session.hpp"'
    plant src/redis/wire/a.cpp '#include "runtime/engine/engine.hpp"'
    plant src/redis/net/a.cpp '#include <boost/redis/request.hpp>'
    plant src/redis/net/a.cpp '#include <redis/wire/token.hpp>'
    plant src/redis/net/a.cpp '#include "api/option_checks.hpp"'
    plant src/runtime/engine/a.cpp '#include "api/option_checks.hpp"'
    plant src/api/a.cpp '#include <boost/redis/request.hpp>'
    plant src/api/a.cpp '#include "redis/net/session.hpp"'
    plant src/command/a.cpp '#include "api/log_text.hpp"'
    plant include/holdfast/a.hpp '#include <boost/redis/request.hpp>'
    plant include/holdfast/a.hpp '#include "runtime/engine/engine.hpp"'
    plant src/redis/cellar/a.cpp '// a room that the table does not have'
    plant src/redis/a.cpp '// a file that is in no room'
    make_project
    rm "$root"/src/redis/net/README.md
    ! check "$root" >/dev/null || { echo 'a room without a first file passes'; exit 1; }
    make_project
    for n in $(seq 31); do echo >"$root/src/redis/net/$n.hpp"; done
    ! check "$root" >/dev/null || { echo 'a room with 31 files passes'; exit 1; }
    make_project
    sed -i 's/| c | `protocol`/| c | `redis\/net`/' "$root"/doc/internals/architecture.md
    ! check "$root" >/dev/null || { echo 'a circle passes'; exit 1; }
    echo "every planted violation was found"
else
    check "$1"
fi
