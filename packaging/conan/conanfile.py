"""Builds holdfast from the checkout that this recipe is in: conan create packaging/conan."""

import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir

required_conan_version = ">=2.0"


class Holdfast(ConanFile):
    name = "holdfast"
    description = "Distributed locks for Boost.Asio coroutines, on Redis or Valkey"
    license = "BSL-1.0"
    topics = ("distributed-lock", "redlock", "redis", "valkey", "asio", "coroutines")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False]}
    # The library uses headers of Boost alone.
    default_options = {"shared": False, "fPIC": True, "boost/*:header_only": True}

    @property
    def _checkout(self):
        return os.path.join(self.recipe_folder, os.pardir, os.pardir)

    def set_version(self):
        header = load(self, os.path.join(self._checkout, "include/holdfast/version.hpp"))
        self.version = re.search(r'HOLDFAST_VERSION_STRING "([^"]+)"', header).group(1)

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "src/*", "doc/man/*"):
            copy(self, pattern, self._checkout, self.export_sources_folder)

    def configure(self):
        if self.options.shared:
            self.options.rm_safe("fPIC")

    def requirements(self):
        # Public headers include Boost's, and programs need the version that the library has.
        self.requires("boost/1.92.0", transitive_headers=True)
        self.requires("openssl/[>=3 <4]")

    def validate(self):
        check_min_cppstd(self, 20)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["HOLDFAST_INSTALL"] = True
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()
        # CMakeDeps and PkgConfigDeps write these for the consumer.
        for folder in ("lib/cmake", "lib/pkgconfig", "share/doc"):
            rmdir(self, os.path.join(self.package_folder, folder))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "holdfast")
        library = self.cpp_info.components["holdfast"]
        library.libs = ["holdfast"]
        library.set_property("cmake_target_name", "holdfast::holdfast")
        library.set_property("pkg_config_name", "holdfast")
        library.requires = ["boost::headers", "openssl::openssl"]
        if self.settings.os == "Linux":
            library.system_libs = ["pthread"]
        # The embedded instance, for unit tests.
        testing = self.cpp_info.components["testing"]
        testing.libs = ["holdfast_testing"]
        testing.set_property("cmake_target_name", "holdfast::testing")
        testing.set_property("pkg_config_name", "holdfast-testing")
        testing.requires = ["holdfast"]
