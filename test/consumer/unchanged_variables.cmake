# find_package(holdfast), and an error if it changed a variable of its caller or left one behind. A
# macro, so that the scope is the caller's; what is in the cache is no concern of it.
macro(find_holdfast_and_compare_variables)
    # Those that CMake files of the dependencies are known to set.
    foreach(name Boost_FOUND Boost_LIBRARIES Boost_VERSION OPENSSL_FOUND Threads_FOUND
            PACKAGE_PREFIX_DIR)
        set(${name} "the consumer's own")
    endforeach()
    set(CMAKE_MODULE_PATH "${CMAKE_CURRENT_SOURCE_DIR}")
    get_cmake_property(names_before VARIABLES)
    foreach(name IN LISTS names_before)
        set("before_${name}" "${${name}}")
    endforeach()
    find_package(holdfast 0.1 REQUIRED)
    get_cmake_property(names_after VARIABLES)
    foreach(name IN LISTS names_after)
        if(name MATCHES "^(before_|CMAKE_MATCH_|holdfast_|name$|names_before$|names_after$)"
                OR DEFINED CACHE{${name}})
            continue()
        elseif(NOT DEFINED "before_${name}")
            message(FATAL_ERROR "find_package(holdfast) leaves ${name} behind: ${${name}}")
        elseif(NOT "${${name}}" STREQUAL "${before_${name}}")
            message(FATAL_ERROR "find_package(holdfast) changes ${name}: ${${name}}")
        endif()
    endforeach()
    foreach(name Boost_FOUND Boost_LIBRARIES Boost_VERSION OPENSSL_FOUND Threads_FOUND
            PACKAGE_PREFIX_DIR)
        unset(${name})
    endforeach()
endmacro()
