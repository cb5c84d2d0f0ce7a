#!/usr/bin/env bash
# Makes Debian packages of a build, and checks their files, their dependencies, a program that is
# compiled with them, and that they leave nothing behind. Changes nothing on this machine: dpkg
# installs into a folder, and apt only says whether it would install.
# usage: package.sh SOURCE BUILD WORK COMPILER BOOST_INCLUDE_FOLDER static|shared
# BUILD is a build with tests: its own form of the library, and the shared one as a component.
set -eu -o pipefail
source=$1 build=$2 work=$3 compiler=$4 boost=$5 own_form=$6

fail() { printf 'package: %s\n' "$*" >&2; exit 1; }

for tool in cpack dpkg-deb dpkg-shlibdeps file pkg-config; do
    command -v "$tool" >/dev/null || fail "$tool is not installed; tools/setup installs it"
done
rm -rf "$work"
mkdir -p "$work"

# depends FORM: a part of the dependencies.
declare -A depends=(
    [static]='libssl-dev (>= 3.0)'
    [shared]='libssl3'
)

pack() { # form; sets deb
    local form=$1 control=$build/holdfast_package/control
    local options=(-D CPACK_DEBIAN_COMPRESSION_TYPE=none)
    if [ "$form" != "$own_form" ]; then
        options+=(
            -D "CPACK_INSTALL_CMAKE_PROJECTS=$build;holdfast;shared_form;/"
            -D CPACK_DEBIAN_PACKAGE_DEPENDS=
            -D "CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA=$control/triggers;$control/shlibs"
            -D "CPACK_POST_BUILD_SCRIPTS=$source/cmake/holdfast_package_scripts.cmake"
        )
    fi
    cpack --config "$build/CPackConfig.cmake" -B "$work/$form" "${options[@]}" \
        >"$work/$form.log" 2>&1 || { cat "$work/$form.log" >&2; fail 'cpack failed'; }
    deb=$(echo "$work/$form"/holdfast_*.deb)
    [ -f "$deb" ] || fail "no package in $work/$form"
}

check_fields() { # form
    local found
    [ "$(dpkg-deb -f "$deb" Package)" = holdfast ] || fail "$1: the package is not named holdfast"
    [ "$(dpkg-deb -f "$deb" Architecture)" = "$(dpkg --print-architecture)" ] ||
        fail "$1: the package is for another architecture"
    found=$(dpkg-deb -f "$deb" Depends)
    [[ $found == *"${depends[$1]}"* ]] || fail "$1: no \"${depends[$1]}\" in Depends: $found"
    [[ $(dpkg-deb -f "$deb" Description) =~ headers\ of\ Boost\ [0-9] ]] ||
        fail "$1: the description does not say which Boost the headers need"
}

check_files() { # form folder
    local file control=$work/$1.control
    dpkg-deb --control "$deb" "$control"
    if [ "$1" = shared ]; then
        grep -qx 'activate-noawait ldconfig' "$control/triggers" || fail "$1: no ldconfig"
        grep -qE '^libholdfast [0-9.]+ holdfast ' "$control/shlibs" || fail "$1: no shlibs"
    fi
    for file in include/holdfast/holdfast.hpp share/doc/holdfast/copyright; do
        [ -f "$2/usr/$file" ] || fail "$1: no /usr/$file"
    done
    for file in holdfast-config.cmake holdfast-targets.cmake holdfast.pc; do
        [ -n "$(find "$2/usr/lib" -name "$file")" ] || fail "$1: no $file"
    done
    # A build for work has paths of headers in its binaries.
    local binaries=
    ! grep -qx 'CMAKE_BUILD_TYPE:STRING=Debug' "$build/CMakeCache.txt" || binaries=-I
    for file in "$source" "$build" "$work" "$boost"; do
        ! grep -rl $binaries -F "$file" "$2" || fail "$1: these files name $file"
    done
    # The shared form in a build of the static one has no command.
    if [ "$1" = "$own_form" ] && [ -e "$build/src/command/holdfast" ]; then
        "$2/usr/bin/holdfast" --help >"$work/help" || fail "$1: /usr/bin/holdfast does not run"
        for file in man/man1/holdfast.1 bash-completion/completions/holdfast; do
            [ -s "$2/usr/share/$file" ] || fail "$1: no /usr/share/$file"
        done
        for file in monitoring/alerts.yml monitoring/dashboard.json $(grep -rhoE \
            'doc/[a-z-]+\.md' "$source"/{src/command,doc/man,doc/monitoring} | sed 's#doc/##'); do
            [ -s "$2/usr/share/doc/holdfast/$file" ] || fail "$1: no page $file"
        done
    fi
    # /usr is what all packages share.
    [ -z "$(find "$2" -mindepth 1 -maxdepth 1 ! -name usr)" ] || fail "$1: files outside of /usr"
}

check_program() { # form folder
    local pc quoted flags
    pc=$(dirname "$(find "$2/usr" -name holdfast.pc)")
    # As doc/install.md says.
    [ -n "$(PKG_CONFIG_PATH=$pc pkg-config --variable=boost_includedir holdfast)" ] ||
        fail "$1: holdfast.pc has no boost_includedir"
    # The output is words of a shell, in which a space has a backslash.
    quoted=$(PKG_CONFIG_PATH=$pc pkg-config --define-variable="boost_includedir=${boost// /\\ }" \
        --cflags --libs holdfast)
    eval "flags=($quoted)"
    "$compiler" -std=c++20 "$source"/test/consumer/{main,use_holdfast}.cpp "${flags[@]}" \
        -pthread "-Wl,-rpath,$(dirname "$pc")" -o "$work/$1.program"
    "$work/$1.program" >/dev/null || fail "$1: the program that uses the package fails"
}

# Everything in a folder but dpkg's own records.
content() { (cd "$1" && find . -path ./var/lib/dpkg -prune -o -print | LC_ALL=C sort); }

check_removal() { # form
    local root=$work/$1.root options
    mkdir -p "$root"/var/lib/dpkg/{info,updates,triggers} "$root/var/log"
    : >"$root/var/lib/dpkg/status"
    # The folder has no other packages and no shell for scripts of packages.
    options=(--root="$root" --force-depends --force-script-chrootless --no-triggers)
    content "$root" >"$work/before"
    dpkg "${options[@]}" --log=/dev/null -i "$deb" >"$work/$1.dpkg.log" 2>&1 ||
        { cat "$work/$1.dpkg.log" >&2; fail "$1: dpkg does not install the package"; }
    [ -f "$root/usr/include/holdfast/client.hpp" ] || fail "$1: dpkg installed no headers"
    dpkg "${options[@]}" --log=/dev/null -r holdfast >>"$work/$1.dpkg.log" 2>&1 ||
        { cat "$work/$1.dpkg.log" >&2; fail "$1: dpkg does not remove the package"; }
    content "$root" >"$work/after"
    diff "$work/before" "$work/after" >&2 || fail "$1: the package leaves these behind"
    ! grep -q '^Package' "$root/var/lib/dpkg/status" || fail "$1: dpkg still knows the package"
}

for form in "$own_form" shared; do
    [ ! -e "$work/$form" ] || continue # both are the same
    pack "$form"
    check_fields "$form"
    dpkg-deb -x "$deb" "$work/$form.files"
    check_files "$form" "$work/$form.files"
    check_program "$form" "$work/$form.files"
    if [ "$(id -u)" = 0 ]; then
        check_removal "$form"
    else
        echo "package: no root, so dpkg did not install the $form package into a folder"
    fi
    if command -v apt-get >/dev/null; then
        apt-get install --simulate -q "$deb" >"$work/$form.apt.log" 2>&1 ||
            { cat "$work/$form.apt.log" >&2; fail "$form: apt would not install the package"; }
        grep -q '^Inst holdfast ' "$work/$form.apt.log" ||
            { cat "$work/$form.apt.log" >&2; fail "$form: apt does not name the package"; }
    fi
    echo "package: $form, $(dpkg-deb -f "$deb" Depends)"
done
