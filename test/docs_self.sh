#!/usr/bin/env bash
# Checks that tools/docs finds faults: works on a copy of the project in which it plants them.
# usage: docs_self.sh PROJECT
set -eu -o pipefail

project=$(cd "$1" && pwd)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
copy=$root/project

fresh() {
    rm -rf "$copy"
    mkdir -p "$copy"
    tar -C "$project" --exclude=./build --exclude=./.git -cf - . | tar -C "$copy" -xf -
}
# Fails unless the build of the site fails and says each of the texts.
refused() { # text...
    local said text
    if said=$("$copy/tools/docs" --no-browser "$root/site" 2>&1); then
        echo "not found: $1"
        exit 1
    fi
    for text in "$@"; do
        grep -qF -- "$text" <<<"$said" || {
            printf 'not told: %s\nbut:\n%s\n' "$text" "$said"
            exit 1
        }
    done
}
after() { # file line-pattern text: adds the text after the line
    sed -i "/$2/a\\
$3" "$copy/$1"
    grep -qF -- "$3" "$copy/$1" || { echo "nothing was planted in $1"; exit 1; }
}

# Figures of a new file of data are on the page of the benchmarks.
fresh
cat >"$copy/doc/data/planted.json" <<'JSON'
{"runs": [{"coroutines": 7, "pairs_per_s": 876543.2, "floor_pairs_per_s": 987654.3}]}
JSON
cat >"$copy/doc/data/planted-too.json" <<'JSON'
{"count": 4, "cpu_percent_of_core": 13.57, "part": {"took_ms": 24.68}}
JSON
"$copy/tools/docs" --no-browser "$root/site" >"$root/said" 2>&1 || {
    echo 'a project without faults does not pass:'
    cat "$root/said"
    exit 1
}
for figure in 876,543 987,654 '7 coroutines' 13.6 24.7; do
    grep -qF -- ">$figure<" "$root/site/doc/benchmarks.html" || {
        echo "not drawn: $figure"
        exit 1
    }
done
rm "$copy"/doc/data/planted*

# Doxygen finds these, and the first one alone does.
after include/holdfast/lock.hpp "^    .*The key on the servers, with the client's prefix" \
    '    /// See @ref no_such_entity.'
refused no_such_entity
fresh
after include/holdfast/lock.hpp '^    std::string_view key() const noexcept;' \
    '    int undocumented_member() const;'
after include/holdfast/lease.hpp '^namespace holdfast {' 'void undocumented_function();'
refused undocumented_member undocumented_function

# It does not find these.
fresh
after include/holdfast/lock.hpp '^class HOLDFAST_API lock {' 'public: ~lock();'
after include/holdfast/lease.hpp '^namespace holdfast {' \
    '/** An enumeration. */ enum class planted { undocumented_value };'
after include/holdfast/version.hpp '^#define HOLDFAST_VERSION ' '#define UNDOCUMENTED_MACRO'
refused '~lock is not documented' undocumented_value UNDOCUMENTED_MACRO

fresh
echo '{"runs": [' >"$copy/doc/data/planted.json"
refused doc/data/planted.json
echo '{"rounds": 3}' >"$copy/doc/data/planted.json"
refused 'doc/data/planted.json has no figures'

fresh
sed -i 's/#1f6feb/#123456/' "$copy/doc/images/lease.svg"
refused '#123456'

fresh
cat >>"$copy/doc/quick-start.md" <<'TEXT'

[a page](no-such-page.md), [a heading](guarantees.md#no-such-heading), [here](#not-here),
[a file](../example/no_such_file.cpp), [outside](../../outside.md), [a path](/etc/passwd)
TEXT
refused no-such-page.md '#no-such-heading' '#not-here' no_such_file.cpp outside.md /etc/passwd
echo 'every planted fault was found'
