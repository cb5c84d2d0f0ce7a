#!/usr/bin/env bash
# Fails for each function of src/protocol that no code in src calls: what only tests call does not
# ship, and a proof about it proves nothing. Functions are known by their names alone.
# usage: uncalled.sh PROJECT | uncalled.sh --self-test
set -eu -o pipefail
export LC_ALL=C

# The names of functions that are declared or defined: a type or a specifier stands before the name.
declared() { # folder
    local none='(?!return|else|throw|new|case|using|delete)' type='[\w:<>\[\], ]+[&*>\w] '
    find "$1/src/protocol" -name '*.hpp' -exec sed -E 's,//.*,,' {} + |
        grep -oP "^\s*${none}${type}[&*]?\K[a-z]\w*(?=\()" | sort -u
}

check() { # folder
    local bad
    bad=$(find "$1/src" '(' -name '*.hpp' -o -name '*.cpp' ')' -exec sed -E 's,//.*,,' {} + |
        grep -oE '[A-Za-z_]\w*' | sort | uniq -u | comm -12 - <(declared "$1"))
    [ -z "$bad" ] || { sed -E 's,.*,src/protocol: nothing in src calls &(),' <<<"$bad"; return 1; }
}

if [ "$1" = --self-test ]; then
    root=$(mktemp -d)
    trap 'rm -rf "$root"' EXIT
    mkdir -p "$root"/src/{protocol,redis}
    printf '%s\n' 'struct a {' '    bool holds(int n) const { return n > 0; }' \
        '    static constexpr int most() { return 3; }' '};' >"$root/src/protocol/a.hpp"
    printf '%s\n' 'bool b(a x) { return x.holds(a::most()); } // unused()' >"$root/src/redis/b.cpp"
    check "$root" || { echo 'functions that are called do not pass'; exit 1; }
    for line in 'inline int unused() { return 1; }' 'template <class R> void unused(R&);' \
        '    [[nodiscard]] std::optional<int> unused(int now) const {'; do
        printf '%s\n' "$line" >"$root/src/protocol/c.hpp"
        ! check "$root" >/dev/null || { echo "not found: $line"; exit 1; }
    done
    exit 0
fi
check "$1"
