# A Debian package with the library, the headers, the files for CMake and pkg-config, and the
# command where it is built:
#   cmake -S . -B build/package -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr \
#       -DBUILD_SHARED_LIBS=ON -DHOLDFAST_COMMAND=ON
#   cmake --build build/package --target package
# The package depends on packages of the Debian release that builds it.
set(HOLDFAST_PACKAGE_MAINTAINER "holdfast developers <holdfast@localhost>" CACHE STRING
    "The person or group who made the Debian package, as: name <address>")

string(JOIN "\n" CPACK_DEBIAN_PACKAGE_DESCRIPTION
    "A C++20 library: locks on one server, or on a majority of several independent"
    "servers, with leases, fencing tokens and waiters that servers wake."
    "."
    "This package has the library, its headers, and files for CMake and pkg-config."
    "Programs that are compiled with it need the headers of Boost ${Boost_VERSION}, the version"
    "that the library was compiled with. They are not in this package, and not"
    "among its dependencies, because Debian 12 and 13 have older ones.")
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME holdfast)
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_PACKAGE_CONTACT "${HOLDFAST_PACKAGE_MAINTAINER}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libboost-dev (>= 1.92), cmake, pkgconf")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# The packages of the libraries that our files were linked with.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
get_target_property(abi holdfast SOVERSION)
set(control "${PROJECT_BINARY_DIR}/holdfast_package/control")
file(WRITE "${control}/triggers" "activate-noawait ldconfig\n")
file(WRITE "${control}/shlibs" "libholdfast ${abi} holdfast (>= ${PROJECT_VERSION})\n")
get_target_property(form holdfast TYPE)
if(form STREQUAL STATIC_LIBRARY)
    set(CPACK_DEBIAN_PACKAGE_DEPENDS "libssl-dev (>= 3.0)")
else()
    set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "${control}/triggers" "${control}/shlibs")
    set(CPACK_POST_BUILD_SCRIPTS "${CMAKE_CURRENT_LIST_DIR}/holdfast_package_scripts.cmake")
endif()
set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_CURRENT_LIST_DIR}/holdfast_package_pc.cmake")
include(CPack)
