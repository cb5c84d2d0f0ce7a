#!/usr/bin/env bash
# usage: bench/peers/run.sh --setup | OPTIONS of hotkey.mjs
# Installs node-redlock into build/deps/peers, with npm as it is configured here, unless it is there
# already.
set -eu -o pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
to=$(cd "$here/../.." && pwd)/build/deps/peers
if ! cmp -s "$here/package-lock.json" "$to/installed"; then
    command -v npm >/dev/null || { echo "bench/peers needs node and npm" >&2; exit 1; }
    mkdir -p "$to"
    rm -f "$to/installed"
    cp "$here/package.json" "$here/package-lock.json" "$to"
    (cd "$to" && npm ci --ignore-scripts --no-audit --no-fund) >&2
    cp "$here/package-lock.json" "$to/installed"
fi
[ "${1-}" != --setup ] || exit 0
cp "$here/hotkey.mjs" "$to" # a module looks for others beside itself
exec node "$to/hotkey.mjs" "$@"
