#!/usr/bin/env bash
# Fails when an include, or a clock, crosses a layer the wrong way:
#   src/protocol   nothing of ours but protocol/; no Asio, no Boost.Redis, no sockets, no clock
#   src/redis      protocol/, redis/ and the public headers; Boost.Redis in codec.hpp and codec.cpp
#                  alone
#   src/runtime    protocol/, redis/, runtime/ and the public headers
#   src/api        everything
#   src/command    command/ and the public headers
#   include/       public headers only, and no Boost.Redis
# usage: layers.sh PROJECT | layers.sh --self-test
set -eu -o pipefail

forbid() { # project folder pattern message [file that may]
    local found
    [ -d "$1/$2" ] || { echo "there is no folder $1/$2"; return 1; }
    found=$(grep -rnE "$3" "$1/$2" --include='*.hpp' --include='*.cpp' \
        ${5:+--exclude="$5.?pp"} || true)
    [ -z "$found" ] || { printf '%s: %s\n%s\n' "$2" "$4" "$found"; return 1; }
}

check() {
    local bad=0 inc='^[[:space:]]*#[[:space:]]*include[[:space:]]*' folder
    for folder in src/protocol src/redis src/runtime src/api src/command include; do
        forbid "$1" $folder "$inc[\"<]\\.\\." \
            'includes name a path from the root of the layers' || bad=1
    done
    forbid "$1" src/protocol "$inc[\"<](redis|runtime|api|holdfast)/" \
        'the protocol includes only itself' || bad=1
    forbid "$1" src/protocol "$inc<(boost/(asio|redis)|sys/|netinet/|unistd|time\.h)" \
        'the protocol knows neither Asio nor sockets' || bad=1
    forbid "$1" src/protocol \
        '::now\(|clock_gettime|gettimeofday|[^_a-z]time\((nullptr|NULL|0|&)' \
        'the protocol reads no clock' || bad=1
    forbid "$1" src/redis "$inc[\"<](runtime|api)/" 'the wire does not know who drives it' || bad=1
    forbid "$1" src/runtime "$inc[\"<]api/" 'the runtime does not know who calls it' || bad=1
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
    plant() { # file line
        rm -rf "$root"/*
        mkdir -p "$root"/src/{protocol,redis,runtime,api,command} "$root"/include/holdfast
        check "$root" >/dev/null || { echo "an empty project does not pass"; exit 1; }
        printf '%s\n' "$2" >"$root/$1"
        ! check "$root" >/dev/null || { echo "not found in $1: $2"; exit 1; }
    }
    plant src/protocol/a.hpp '#include "redis/net/session.hpp"'
    plant src/protocol/a.hpp '#include "runtime/engine/engine.hpp"'
    plant src/protocol/a.hpp '#include <holdfast/clock.hpp>'
    plant src/protocol/a.hpp '#include <boost/asio/post.hpp>'
    plant src/protocol/a.hpp 'auto t = lease_clock::now();'
    plant src/protocol/a.hpp '#  include "redis/net/session.hpp"'
    plant src/protocol/a.hpp '#include "../redis/net/session.hpp"'
    plant src/protocol/a.hpp 'auto t = std::time(nullptr);'
    plant src/redis/a.cpp '#include "runtime/engine/engine.hpp"'
    plant src/redis/a.cpp '#include <boost/redis/request.hpp>'
    plant src/redis/a.cpp '#include "api/option_checks.hpp"'
    plant src/runtime/a.cpp '#include "api/option_checks.hpp"'
    plant src/api/a.cpp '#include <boost/redis/request.hpp>'
    plant src/command/a.cpp '#include "api/log_text.hpp"'
    plant src/runtime/a.cpp '#include <boost/redis/request.hpp>'
    plant include/holdfast/a.hpp '#include <boost/redis/request.hpp>'
    plant include/holdfast/a.hpp '#include "runtime/engine/engine.hpp"'
    echo "every planted violation was found"
else
    check "$1"
fi
