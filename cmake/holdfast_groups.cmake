# The files of a target include the same headers, and instantiate the same templates of Asio and
# Boost.Test: that is most of what their compilation takes. In groups of a few it takes less than
# half as long. Other projects, and builds for use, compile each file of the library alone.
option(HOLDFAST_GROUPS
    "Compile files in groups. Off: an edited file compiles sooner, and all of them later"
    ${PROJECT_IS_TOP_LEVEL})

# holdfast_group(target [ALONE files ...]): compiles its files in groups of eight, but for those
# ALONE. A group is a generated file with the same content in each checkout, for compiler caches.
function(holdfast_group target)
    cmake_parse_arguments(arg "" "" "ALONE" ${ARGN})
    # Users may build with CMAKE_UNITY_BUILD.
    set_source_files_properties(${arg_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    if(NOT HOLDFAST_GROUPS OR NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
        return()
    endif()
    get_target_property(members ${target} SOURCES)
    list(REMOVE_ITEM members ${arg_ALONE})
    list(LENGTH members count)
    set(files ${arg_ALONE})
    set(first 0)
    while(first LESS count)
        list(SUBLIST members ${first} 8 some)
        list(TRANSFORM some REPLACE "(.+)" "#include \"\\1\"")
        list(JOIN some "\n" content)
        set(file "${CMAKE_CURRENT_BINARY_DIR}/groups/${target}_${first}.cpp")
        file(CONFIGURE OUTPUT "${file}" CONTENT "@content@\n" @ONLY)
        list(APPEND files "${file}")
        math(EXPR first "${first} + 8")
    endwhile()
    set_property(TARGET ${target} PROPERTY SOURCES ${files})
    target_include_directories(${target} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
    # Names of one file shadow those of another; and g++ warns about all types with parts in an
    # anonymous namespace that are not in the main file.
    target_compile_options(${target} PRIVATE -Wno-shadow)
    if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
        target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
    endif()
endfunction()

# A group of tests is a generated file. It includes what its files include, and then each file in a
# namespace of its own, as their helpers have the same names. Boost.Test does not see these
# namespaces.
#
# holdfast_group_tests(out name SIZE n SOURCES ...): sets `out` to the files to compile for the
# executable `name`. A file that does not end in _test.cpp is compiled alone.
function(holdfast_group_tests out name)
    cmake_parse_arguments(arg "" "SIZE" "SOURCES" ${ARGN})
    if(NOT HOLDFAST_GROUPS)
        set(${out} ${arg_SOURCES} PARENT_SCOPE)
        return()
    endif()
    set(rest ${arg_SOURCES})
    list(FILTER rest EXCLUDE REGEX "_test\\.cpp$")
    set(tests ${arg_SOURCES})
    list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
    list(LENGTH tests count)
    math(EXPR groups "(${count} + ${arg_SIZE} - 1) / ${arg_SIZE}")
    set(group 0)
    while(group LESS groups)
        math(EXPR first "${group} * ${arg_SIZE}")
        list(SUBLIST tests ${first} ${arg_SIZE} members)
        set(includes)
        set(bodies)
        foreach(member ${members})
            file(STRINGS "${CMAKE_CURRENT_SOURCE_DIR}/${member}" lines REGEX "^#include ")
            list(APPEND includes ${lines})
            get_filename_component(stem "${member}" NAME_WE)
            string(APPEND bodies "namespace in_${stem} {\n"
                "#include \"${member}\"\n}\n")
            # With another #include in it, the group is generated again.
            set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${member}")
        endforeach()
        list(REMOVE_DUPLICATES includes)
        list(JOIN includes "\n" includes)
        set(file "${CMAKE_CURRENT_BINARY_DIR}/groups/${name}_${group}.cpp")
        file(CONFIGURE OUTPUT "${file}" CONTENT "@includes@\n@bodies@" @ONLY)
        list(APPEND rest "${file}")
        if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
            set_source_files_properties("${file}" PROPERTIES
                COMPILE_OPTIONS -Wno-subobject-linkage)
        endif()
        math(EXPR group "${group} + 1")
    endwhile()
    set(${out} ${rest} PARENT_SCOPE)
endfunction()
