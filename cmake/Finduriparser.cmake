# uriparser::uriparser, by uriparser's own CMake files or else by its header and its library.
find_package(uriparser 0.9 CONFIG QUIET)
if(TARGET uriparser::uriparser)
    set(uriparser_FOUND TRUE)
    return()
endif()

find_path(uriparser_INCLUDE_DIR uriparser/Uri.h)
find_library(uriparser_LIBRARY uriparser)
mark_as_advanced(uriparser_INCLUDE_DIR uriparser_LIBRARY)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(uriparser REQUIRED_VARS uriparser_LIBRARY uriparser_INCLUDE_DIR)
if(uriparser_FOUND)
    add_library(uriparser::uriparser UNKNOWN IMPORTED)
    set_target_properties(uriparser::uriparser PROPERTIES IMPORTED_LOCATION "${uriparser_LIBRARY}"
        INTERFACE_INCLUDE_DIRECTORIES "${uriparser_INCLUDE_DIR}")
endif()
