#!/usr/bin/env bash
# Keeps lines and tables readable side by side in an editor, a review and a terminal. Fails when
#   - a line has more than 100 columns: of Markdown, C++, CMake, shell, Python, JavaScript or
#     Promela. Exempt are the rows of tables in Markdown, and a URL with at most two words before
#     it;
#   - a cell of a table in Markdown has more than 12 words. Code does not count.
# usage: prose.sh PROJECT | prose.sh --self-test
set -eu -o pipefail

columns=100
cell_words=12

# The locale in which a column is a character.
utf8=$(locale -a 2>/dev/null | grep -iE '^(C|en_US)\.utf-?8$' | head -n 1 || true)

files() { # project pattern folder...
    local project=$1 pattern=$2 folder
    shift 2
    for folder in "$@"; do
        [ ! -d "$project/$folder" ] || find "$project/$folder" -type f -name "$pattern"
    done | LC_ALL=C sort
}
markdown() {
    find "$1" -maxdepth 1 -type f -name '*.md' | LC_ALL=C sort
    files "$1" '*.md' doc example src
}
code() { files "$1" '*.[ch]pp' include src test example bench; }
# Also those without an extension, by their first two characters.
scripts() { # project
    local file start
    {
        find "$1" -maxdepth 1 -type f
        files "$1" '*' .ci bench cmake doc example src test tools
    } | while read -r file; do
        case ${file##*/} in
            CMakeLists.txt | *.cmake | *.sh | *.py | *.mjs | *.pml) echo "$file" ;;
            *.*) ;;
            *)
                start=
                IFS= read -r -N 2 start <"$file" || true
                [ "$start" != '#!' ] || echo "$file"
                ;;
        esac
    done
}

# Prints "file:line:text" for the lines of the named files that are too long.
too_long() { LC_ALL=${utf8:-C} xargs -r -d '\n' grep -HnE "^.{$((columns + 1)),}" || true; }
long_lines() { # project
    {
        markdown "$1" | too_long | grep -vE '^[^:]+:[0-9]+:[[:space:]]*\|' || true
        { code "$1"; scripts "$1"; } | too_long
    } | grep -vE '^[^:]+:[0-9]+:[^ ]* *[^ ]* *[^ ]*https?://[^ ]+$' || true
}

# Prints "file:line: text" for each cell with too many words. Code does not count.
long_cells() { # project
    markdown "$1" | xargs -r -d '\n' awk -v most=$cell_words '
        FNR == 1 { fenced = 0 }
        /^```/ { fenced = !fenced }
        fenced || !/^ *\|/ { next }
        {
            gsub(/`[^`]*`/, ""); gsub(/\]\([^)]*\)/, "]"); gsub(/\\\|/, "")
            cells = split($0, cell, "|")
            for (i = 1; i <= cells; ++i)
                if (split(cell[i], ignored, " ") > most)
                    print FILENAME ":" FNR ":" cell[i]
        }'
}

none() { # message command...
    local message=$1 found
    shift
    found=$("$@")
    [ -z "$found" ] || { printf '%s:\n%s\n' "$message" "$found"; return 1; }
}

check() { # project
    local bad=0
    none "lines of more than $columns columns" long_lines "$1" || bad=1
    none "cells of more than $cell_words words" long_cells "$1" || bad=1
    return $bad
}

if [ "$1" = --self-test ]; then
    root=$(mktemp -d)
    trap 'rm -rf "$root"' EXIT
    empty() {
        rm -rf "${root:?}"/* "${root:?}/.ci"
        mkdir -p "$root"/{.ci,bench,cmake,doc,example,include,src,test,tools}
        printf '# Title\n\nA line.\n' >"$root/README.md"
    }
    empty
    check "$root" >/dev/null || { echo 'a clean project does not pass'; exit 1; }
    plant() { # file line
        empty
        printf '%s\n' "$2" >"$root/$1"
        ! check "$root" >/dev/null || { echo "not found in $1: $2"; exit 1; }
    }
    harmless() { # file line
        empty
        printf '%s\n' "$2" >"$root/$1"
        said=$(check "$root") || { printf 'found in %s: %s\n%s\n' "$1" "$2" "$said"; exit 1; }
    }
    words() { printf "$2%.0s" $(seq "$1"); } # count word
    plant README.md "$(words 26 'abc ')"
    plant doc/a.md "- $(words 26 'abc ')"
    plant example/README.md "$(words 26 'abc ')"
    plant doc/a.md "$(words 30 'abc ')https://example.org"
    plant include/a.hpp "// $(words 26 'abc ')"
    plant src/a.cpp "auto x = \"$(words 26 'abc ')\";"
    plant test/a.cpp "// $(words 26 'abc ')"
    plant CMakeLists.txt "# $(words 26 'abc ')"
    plant src/CMakeLists.txt "set(x $(words 26 'abc '))"
    plant cmake/a.cmake "# $(words 26 'abc ')"
    plant test/a.sh "# $(words 26 'abc ')"
    plant bench/a.mjs "// $(words 26 'abc ')"
    plant tools/a.py "# $(words 26 'abc ')"
    plant test/a.pml "/* $(words 26 'abc ')*/"
    plant .ci/run "#!/bin/sh"$'\n'"echo $(words 26 'abc ')"
    plant tools/a "#!/usr/bin/env python3"$'\n'"# $(words 26 'abc ')"
    plant test/run "#!/usr/bin/env bash"$'\n'"# | $(words 26 'abc ')|"
    plant doc/a.md "| one | $(words 13 'a ')|"
    harmless doc/a.md "[text](https://example.org/$(words 40 'abc'))"
    harmless doc/a.md "| $(words 5 'a ')| $(words 40 '`code in a cell` ')|"
    harmless doc/a.md '# ä'"$(words 97 'ö')"
    harmless test/run "#!/bin/sh"$'\n'"# $(words 24 'abc ')"
    harmless tools/a.py "# see https://example.org/$(words 40 'abc')"
    harmless test/input "$(words 26 'abc ')"
    harmless doc/a.md '```'$'\n'"| $(words 13 'a ')|"$'\n''```'
    echo 'every planted violation was found'
else
    check "$1"
fi
