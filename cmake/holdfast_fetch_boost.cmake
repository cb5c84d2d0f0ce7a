# HOLDFAST_FETCH_BOOST: a release of Boost, for machines whose own is too old. Only its headers are
# used, so nothing of it is compiled by itself.
set(HOLDFAST_BOOST_URL
    "https://archives.boost.io/release/1.92.0/source/boost_1_92_0.tar.bz2" CACHE STRING
    "The archive of Boost that HOLDFAST_FETCH_BOOST unpacks; file:// works, too")
set(HOLDFAST_BOOST_SHA256
    "5c1d40cb8e19adbf740a4ec2da35b3e58f3f5804b1dce44deb53df72193cbc6c" CACHE STRING
    "The SHA-256 of that archive; Boost publishes it beside the archive")

include("${CMAKE_CURRENT_LIST_DIR}/holdfast_boost.cmake")

function(holdfast_fetch_boost oldest)
    if(TARGET Boost::headers)
        message(FATAL_ERROR "${holdfast_boost_reason} HOLDFAST_FETCH_BOOST cannot replace it. Let "
            "CMAKE_PREFIX_PATH name a newer one for the whole project, or add holdfast before the "
            "project's own find_package(Boost).")
    endif()
    include(FetchContent)
    if(POLICY CMP0135)
        cmake_policy(SET CMP0135 NEW) # files have the time of their unpacking
    endif()
    set(check)
    if(HOLDFAST_BOOST_SHA256)
        if(NOT HOLDFAST_BOOST_SHA256 MATCHES "^[0-9a-fA-F]+$")
            message(FATAL_ERROR
                "HOLDFAST_BOOST_SHA256 is no hexadecimal number: \"${HOLDFAST_BOOST_SHA256}\"")
        endif()
        set(check URL_HASH "SHA256=${HOLDFAST_BOOST_SHA256}")
    else()
        message(WARNING "HOLDFAST_BOOST_SHA256 is empty, so nothing but TLS proves that "
            "${HOLDFAST_BOOST_URL} is the release of Boost.")
    endif()
    # Boost's own CMake files would configure each of its libraries. There are none in this folder.
    FetchContent_Declare(holdfast_boost URL "${HOLDFAST_BOOST_URL}" ${check} TLS_VERIFY ON
        SOURCE_SUBDIR no_cmake_files)
    FetchContent_MakeAvailable(holdfast_boost)
    set(header "${holdfast_boost_SOURCE_DIR}/boost/version.hpp")
    if(NOT EXISTS "${header}")
        message(FATAL_ERROR "${HOLDFAST_BOOST_URL} has no boost/version.hpp. It should be a source "
            "release of Boost, such as boost_1_92_0.tar.bz2.")
    endif()
    holdfast_version_of_boost("${header}" found)
    if(found VERSION_LESS oldest)
        message(FATAL_ERROR
            "${HOLDFAST_BOOST_URL} has Boost ${found}; holdfast needs ${oldest} or newer.")
    endif()
    message(STATUS "Boost ${found} from ${HOLDFAST_BOOST_URL}")
    # Imported, so the installed package names it and does not want to install it.
    add_library(Boost::headers INTERFACE IMPORTED GLOBAL)
    target_include_directories(Boost::headers INTERFACE "${holdfast_boost_SOURCE_DIR}")
    set(Boost_VERSION "${found}" PARENT_SCOPE)
endfunction()
