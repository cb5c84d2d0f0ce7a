#!/usr/bin/env bash
# Fails when doc/guarantees.md promises without a test:
#   - a promise (a heading "### G1 ...") names no test case, or two promises have one ID;
#   - a promise names a case twice, or has two lists of tests;
#   - a test case `suite/case` in backticks exists in no suite_test.cpp below test/;
#   - the source of that case is not in test/tests.cmake, so it never runs.
# usage: guarantees.sh PROJECT | guarantees.sh --self-test
set -eu -o pipefail

# Prints "suite/case" for each test case of a source that is built.
cases() { # project
    local source suite
    find "$1/test" -name '*_test.cpp' | while read -r source; do
        suite=$(basename "$source" _test.cpp)
        grep -qwF "${source#"$1/test/"}" "$1/test/tests.cmake" || continue
        # A long declaration continues on the next line.
        tr '\n' ' ' <"$source" |
            grep -oE 'BOOST_[A-Z_]*TEST_CASE(_F)?\( *[A-Za-z0-9_]+( *, *[A-Za-z0-9_]+)?' |
            sed -E -e '/FIXTURE|AUTO|DATA_TEST_CASE\(/s/, .*//' \
                -e '/CASE_F/s/\( *[A-Za-z0-9_]+ *,/(/' \
                -e "s|.*\( *|$suite/|"
    done | LC_ALL=C sort -u
}

# Prints "ID suite/case" for each case that a promise names, and "ID" for a promise without.
named() { # project
    awk '
        function flush() { if (id != "" && !any) print id }
        /^### / { flush(); id = $2; any = 0; next }
        /^## / { flush(); id = "" }
        id != "" {
            line = $0
            while (match(line, /`[a-z0-9_]+\/[a-z0-9_]+`/)) {
                print id, substr(line, RSTART + 1, RLENGTH - 2)
                any = 1
                line = substr(line, RSTART + RLENGTH)
            }
        }
        END { flush() }' "$1/doc/guarantees.md"
}

check() { # project
    local bad=0 known ids found
    known=$(cases "$1")
    [ -n "$known" ] || { echo 'no test case was found'; return 1; }
    ids=$(grep -oE '^### G[0-9]+' "$1/doc/guarantees.md" || true)
    [ -n "$ids" ] || { echo 'doc/guarantees.md has no promise'; return 1; }
    found=$(uniq -d <<<"$(sort <<<"$ids")")
    [ -z "$found" ] || { printf 'two promises have one ID:\n%s\n' "$found"; bad=1; }
    found=$(grep -oE '^- \*\*N[0-9]+' "$1/doc/guarantees.md" | sort | uniq -d)
    [ -z "$found" ] || { printf 'two limits have one ID:\n%s\n' "$found"; bad=1; }
    found=$(named "$1" | LC_ALL=C sort | uniq -d)
    [ -z "$found" ] || { printf 'a promise names a case twice:\n%s\n' "$found"; bad=1; }
    found=$(awk '/^### /{id=$2; n=0} /^- Tests:/{if(++n == 2) print id}' "$1/doc/guarantees.md")
    [ -z "$found" ] || { printf 'a promise has two lists of tests:\n%s\n' "$found"; bad=1; }
    found=$(named "$1" | awk '
        NR == FNR { known[$1]; next }
        NF < 2 { print $1 " names no test case"; next }
        !($2 in known) { print $1 " names " $2 ", which does not exist or is not built" }
        ' <(echo "$known") -)
    [ -z "$found" ] || { echo "$found"; bad=1; }
    return $bad
}

if [ "$1" = --self-test ]; then
    root=$(mktemp -d)
    trap 'rm -rf "$root"' EXIT
    page=$root/doc/guarantees.md
    sources=$root/test/tests.cmake
    unit=$root/test/unit/room/a_test.cpp
    integration=$root/test/integration/b_test.cpp
    clean() {
        rm -rf "${root:?}"/*
        mkdir -p "$root"/doc "$root"/test/{unit/room,integration}
        printf '%s\n' 'holdfast_test(unit SOURCES' '    unit/room/a_test.cpp)' \
            'holdfast_test(integration SOURCES' '    integration/b_test.cpp)' >"$sources"
        printf '%s\n' 'BOOST_AUTO_TEST_CASE(one) {' 'BOOST_DATA_TEST_CASE(' '    two, samples) {' \
            >"$unit"
        printf '%s\n' 'BOOST_FIXTURE_TEST_CASE(three, fixture) {' \
            'BOOST_DATA_TEST_CASE_F(fixture, four, samples) {' >"$integration"
        printf '%s\n' '# Guarantees' '### G1 First' 'Tests: `a/one`,' '`a/two`.' '### G2 Second' \
            'Tests: `b/three`, `b/four`, and `test/model/check`.' '## Others' >"$page"
    }
    fails() { # description
        ! check "$root" >/dev/null || { echo "not found: $1"; exit 1; }
    }
    clean
    check "$root" || { echo 'a clean project does not pass'; exit 1; }
    clean && sed -i 's|a/one|a/none|' "$page" && fails 'a case that does not exist'
    clean && sed -i 's|a/one|b/one|' "$page" && fails 'a case of another suite'
    clean && sed -i 's|(one)|(uno)|' "$unit" && fails 'a case with a new name'
    clean && sed -i 's|four, s|vier, s|' "$integration" && fails 'a case of data'
    clean && rm "$integration" && fails 'a source that is gone'
    clean && sed -i 's|unit/room/a_test.cpp||' "$sources" && fails 'a source that is not built'
    clean && sed -i 's|^### G2|### G1|' "$page" && fails 'an ID that is given twice'
    clean && sed -i 's|`a/two`|`a/one`|' "$page" && fails 'a case that is named twice'
    clean && printf '%s\n' '### G3 Third' '- Tests: `a/one`.' '- Tests: `a/two`.' >>"$page" &&
        fails 'a second list of tests'
    clean && printf '### G3 Third\nNone.\n' >>"$page" && fails 'a promise without a test'
    clean && sed -i 's|^###|####|' "$page" && fails 'a page without promises'
    echo 'every planted fault was found'
else
    check "$1"
fi
