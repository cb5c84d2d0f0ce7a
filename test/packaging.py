#!/usr/bin/env python3
"""Checks packaging/ without vcpkg and Conan, which the tests do not have.

The port: its JSON, its version, a dependency for each library of Boost that sources include, and
its portfile with stand-ins for vcpkg's functions. The recipe: its methods run with a stand-in for
the module `conan`, and the project can be configured from the files that it exports. The program
of its test package is built and run with an installed library.

usage: packaging.py SOURCE WORK PREFIX COMPILER CMAKE_PREFIX_PATH
"""

import collections
import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import types

source, work, prefix, compiler, prefix_path = sys.argv[1:]
boost = "1.92.0"


def check(good, message):
    if not good:
        sys.exit(f"packaging: {message}")


def run(*command, **environment):
    done = subprocess.run(command, env={**os.environ, **environment}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    check(done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}")
    return done.stdout


def read(*names):
    with open(os.path.join(*names), encoding="utf-8") as file:
        return file.read()


def sources():
    for folder in ("include", "src"):
        for place, folders, names in os.walk(os.path.join(source, folder)):
            if "command" in folders:
                folders.remove("command")  # the packages leave it out
            yield from (os.path.join(place, name) for name in names)


version = re.search(r'VERSION_STRING "([^"]+)"', read(source, "include/holdfast/version.hpp"))[1]
check(f"VERSION {version}" in read(source, "CMakeLists.txt"), "CMakeLists.txt has another version")
options = set(re.findall(r"option\((\w+)", read(source, "CMakeLists.txt")))

# The port.
port = os.path.join(source, "packaging/vcpkg/holdfast")
manifest = json.loads(read(port, "vcpkg.json"))
check(manifest["version"] == version, f"vcpkg.json has version {manifest['version']}")
ports = {}
for each in manifest["dependencies"]:
    each = {"name": each} if isinstance(each, str) else each
    ports[each["name"]] = each.get("version>=")
libraries = set()
for name in sources():
    for library, rest in re.findall(r"#include <boost/(\w+)(\.hpp)?", read(name)):
        library = library.replace("multi_index_container", "multi_index")
        # boost/version.hpp is a part of Boost.Config.
        libraries.add("config" if library == "version" else library)
for library in sorted(libraries):
    name = "boost-" + library.replace("_", "-")
    check(ports.get(name) == boost, f"vcpkg.json needs {name} {boost}")
check("openssl" in ports, "vcpkg.json needs openssl")

shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
with open(os.path.join(work, "port.cmake"), "w", encoding="utf-8") as file:
    file.write(f"""cmake_minimum_required(VERSION 3.22)
function(vcpkg_cmake_configure)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" SOURCE_PATH OPTIONS)
    message("source ${{arg_SOURCE_PATH}}")
    foreach(option IN LISTS arg_OPTIONS)
        message("option ${{option}}")
    endforeach()
endfunction()
function(vcpkg_cmake_install)
endfunction()
function(vcpkg_cmake_config_fixup)
    message("fixup ${{ARGN}}")
endfunction()
function(vcpkg_fixup_pkgconfig)
endfunction()
function(vcpkg_install_copyright keyword file)
    message("licence ${{file}}")
endfunction()
set(PORT holdfast)
set(CURRENT_PACKAGES_DIR "{work}/port")
include("{port}/portfile.cmake")
""")
said = run("cmake", "-P", os.path.join(work, "port.cmake"))
check(f"source {source}\n" in said, f"the portfile builds another folder:\n{said}")
check(f"licence {source}/LICENSE\n" in said, f"the portfile installs another licence:\n{said}")
given = set(re.findall(r"option -D(\w+)=", said))
check(given, "the portfile gives no options")
check(given <= options, f"the portfile gives unknown options: {given - options}")
check(os.path.exists(f"{work}/port/share/holdfast/usage"), "the portfile installs no usage")
config = re.search(r"fixup CONFIG_PATH;(\S+)", said)
check(config and os.path.exists(os.path.join(prefix, config[1], "holdfast-config.cmake")),
      f"no holdfast-config.cmake where the portfile looks for it:\n{said}")


# The recipe.
def copy(_, pattern, src, dst):
    """As Conan's: `*` in a pattern goes through folders."""
    for place, _, names in os.walk(src):
        for name in names:
            path = os.path.relpath(os.path.join(place, name), src)
            if not path.startswith("build") and fnmatch.fnmatch(path, pattern):
                os.makedirs(os.path.dirname(os.path.join(dst, path)), exist_ok=True)
                shutil.copy(os.path.join(src, path), os.path.join(dst, path))


class Toolchain:
    made = []

    def __init__(self, recipe):
        self.recipe = recipe
        self.cache_variables = {}
        self.made.append(self)

    def generate(self):
        pass


for name, content in {
    "conan": {"ConanFile": object},
    "conan.tools": {},
    "conan.tools.build": {"check_min_cppstd": None, "can_run": None},
    "conan.tools.cmake": {"CMake": None, "CMakeDeps": Toolchain, "CMakeToolchain": Toolchain,
                          "cmake_layout": None},
    "conan.tools.files": {"copy": copy, "load": lambda _, path: read(path), "rmdir": None},
}.items():
    module = types.ModuleType(name)
    vars(module).update(content)
    sys.modules[name] = module
recipes = os.path.join(source, "packaging/conan")
sys.dont_write_bytecode = True
sys.path.insert(0, recipes)
import conanfile  # noqa: E402

recipe = conanfile.Holdfast()
recipe.recipe_folder = recipes
recipe.export_sources_folder = os.path.join(work, "exported")
recipe.set_version()
check(recipe.version == version, f"the recipe has version {recipe.version}")
needed = {}
recipe.requires = lambda name, **traits: needed.update({name.split("/")[0]: name.split("/")[1]})
recipe.requirements()
check(needed.get("boost") == boost, f"the recipe needs boost {needed.get('boost')}")
check("openssl" in needed, f"the recipe needs only {sorted(needed)}")
recipe.generate()
given = Toolchain.made[0].cache_variables
check(given and given.keys() <= options, f"unknown options: {given.keys() - options}")
recipe.export_sources()
run("cmake", "-S", recipe.export_sources_folder, "-B", os.path.join(work, "configured"), "-G",
    "Ninja", f"-DCMAKE_CXX_COMPILER={compiler}",
    *(f"-D{name}={'ON' if value else 'OFF'}" for name, value in given.items()),
    CMAKE_PREFIX_PATH=prefix_path)



class Info:
    """As Conan's cpp_info, and its components."""

    def __init__(self):
        self.properties = {}
        self.components = collections.defaultdict(Info)

    def set_property(self, name, value):
        self.properties[name] = value


recipe.cpp_info = Info()
recipe.settings = types.SimpleNamespace(os="Linux")
recipe.package_info()
installed = os.listdir(os.path.join(prefix, "lib"))
for part in recipe.cpp_info.components.values():
    for library in part.libs:
        check(f"lib{library}.a" in installed, f"the recipe names {library}, which is not installed")
    pc = part.properties["pkg_config_name"] + ".pc"
    check(os.path.exists(os.path.join(prefix, "lib/pkgconfig", pc)), f"{pc} is not installed")

compile(read(recipes, "test_package/conanfile.py"), "test_package/conanfile.py", "exec")
program = os.path.join(work, "test_package")
run("cmake", "-S", os.path.join(recipes, "test_package"), "-B", program, "-G", "Ninja",
    f"-DCMAKE_CXX_COMPILER={compiler}", CMAKE_PREFIX_PATH=f"{prefix}:{prefix_path}")
run("cmake", "--build", program)
run(os.path.join(program, "try_lock"))
