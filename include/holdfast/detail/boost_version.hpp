// An error about a Boost that is missing or too old, before its missing headers and declarations
// cause less helpful ones. Public headers include this file before those of Boost.
#ifndef HOLDFAST_DETAIL_BOOST_VERSION_HPP
#define HOLDFAST_DETAIL_BOOST_VERSION_HPP

#if !__has_include(<boost/version.hpp>)
// clang-format off
#error holdfast needs Boost 1.92 or newer, and the compiler found none. Name the folder of its \
headers (-I, or CMAKE_PREFIX_PATH), or let CMake download them (HOLDFAST_FETCH_BOOST=ON): \
see doc/install.md
// clang-format on
#endif
#include <boost/version.hpp>

#if BOOST_VERSION < 109200
// #error does not expand macros, and would not say which version was found.
#define HOLDFAST_PRAGMA(text) _Pragma(#text)
#define HOLDFAST_ERROR(text) HOLDFAST_PRAGMA(GCC error text)
#define HOLDFAST_TEXT(...) #__VA_ARGS__
#define HOLDFAST_FAIL(...) HOLDFAST_ERROR(HOLDFAST_TEXT(__VA_ARGS__))
// clang-format off
HOLDFAST_FAIL(holdfast needs Boost 1.92 or newer, but the compiler found BOOST_LIB_VERSION. Name
    the folder of a newer one (-I, or CMAKE_PREFIX_PATH), or let CMake download its headers
    (HOLDFAST_FETCH_BOOST=ON): see doc/install.md)
// clang-format on
#undef HOLDFAST_FAIL
#undef HOLDFAST_TEXT
#undef HOLDFAST_ERROR
#undef HOLDFAST_PRAGMA
#endif

#endif
