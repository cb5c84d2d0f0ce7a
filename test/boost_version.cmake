# What a user reads whose Boost is missing or too old: from CMake, with holdfast as a project, as a
# folder of another project, and installed; and from the compiler. The old Boost is a folder with
# the files that CMake looks for, and a version.hpp.
cmake_minimum_required(VERSION 3.22)
file(REMOVE_RECURSE "${work}")
set(old "${work}/old/usr")
file(WRITE "${old}/include/boost/version.hpp"
    "#define BOOST_VERSION 107400\n#define BOOST_LIB_VERSION \"1_74\"\n")
# As Boost's own file, it leaves a target alone that is there already.
file(WRITE "${old}/lib/cmake/Boost-1.74.0/BoostConfig.cmake" "
if(NOT TARGET Boost::headers)
    add_library(Boost::headers INTERFACE IMPORTED)
    set_target_properties(Boost::headers PROPERTIES
        INTERFACE_INCLUDE_DIRECTORIES \"${old}/include\")
endif()
set(Boost_headers_FOUND 1)
")
file(WRITE "${old}/lib/cmake/Boost-1.74.0/BoostConfigVersion.cmake" "
set(PACKAGE_VERSION 1.74.0)
if(NOT PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION)
    set(PACKAGE_VERSION_COMPATIBLE 1)
endif()
")
# What an installation has, but for its targets, which are read only if all else is found.
set(installed "${work}/installed/lib/cmake/holdfast")
file(COPY "${build}/holdfast_package/holdfast-config.cmake"
    "${build}/holdfast-config-version.cmake" "${source}/cmake/holdfast_boost.cmake"
    DESTINATION "${installed}")

# configure(folder arguments ...): sets `result` and `out`, and leaves out what the system has.
function(configure folder)
    file(REMOVE_RECURSE "${work}/build")
    set(ENV{CMAKE_PREFIX_PATH} "")
    execute_process(COMMAND "${CMAKE_COMMAND}" -S "${folder}" -B "${work}/build" -G Ninja
            "-DCMAKE_CXX_COMPILER=${compiler}" ${ARGN}
        RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE out)
    set(result "${result}" PARENT_SCOPE)
    string(REGEX REPLACE "[ \n]+" " " out "${out}") # CMake breaks the lines of its errors
    set(out "${out}" PARENT_SCOPE)
endfunction()

# has(text ...): each is in `out`.
function(has case)
    foreach(text ${ARGN})
        string(FIND "${out}" "${text}" place)
        if(place EQUAL -1)
            message(FATAL_ERROR "${case}: no \"${text}\" in\n${out}")
        endif()
    endforeach()
endfunction()

function(refused case)
    if(result EQUAL 0)
        message(FATAL_ERROR "${case}: is accepted:\n${out}")
    endif()
    has("${case}" ${ARGN})
endfunction()

set(ways "-DCMAKE_PREFIX_PATH=/path/to/boost" "-DHOLDFAST_FETCH_BOOST=ON")
find_program(ninja NAMES ninja ninja-build REQUIRED)
set(only_given "-DCMAKE_MAKE_PROGRAM=${ninja}"
    -DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF -DCMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH=OFF)
set(none "holdfast needs Boost 1.92 or newer, and CMake found none.")
set(too_old "holdfast needs Boost 1.92 or newer, but CMake found only"
    "Boost 1.74.0 in ${old}/lib/cmake/Boost-1.74.0")
set(first "holdfast needs Boost 1.92 or newer, but this project has found Boost 1.74.0 in"
    "${old}/include before holdfast, and cannot have two.")

# project(name lines ...): another project.
function(project_of name)
    list(JOIN ARGN "\n" lines)
    file(WRITE "${work}/${name}/CMakeLists.txt"
        "cmake_minimum_required(VERSION 3.22)\nproject(${name} LANGUAGES CXX)\n${lines}\n")
endfunction()
set(own_boost "find_package(Boost 1.74 CONFIG REQUIRED COMPONENTS headers)")
project_of(folder "add_subdirectory(\"${source}\" holdfast)")
project_of(folder_second "${own_boost}" "add_subdirectory(\"${source}\" holdfast)")
project_of(package "find_package(holdfast REQUIRED)")
project_of(package_second "${own_boost}" "find_package(holdfast REQUIRED)")
project_of(package_optional "${own_boost}" "find_package(holdfast)"
    "message(STATUS \"found: \${holdfast_FOUND}\")")

set(no_boost -DCMAKE_DISABLE_FIND_PACKAGE_Boost=ON)
foreach(folder "${source}" "${work}/folder")
    configure("${folder}" ${no_boost} -DCMAKE_PREFIX_PATH=${old})
    refused("no Boost, ${folder}" ${none} ${ways})
    configure("${folder}" ${only_given} -DCMAKE_PREFIX_PATH=${old})
    refused("an old Boost, ${folder}" ${too_old} ${ways})
endforeach()
configure("${work}/package" ${no_boost} "-DCMAKE_PREFIX_PATH=${work}/installed")
refused("no Boost, installed" ${none} ${ways})
set(both "-DCMAKE_PREFIX_PATH=${work}/installed\;${old}")
configure("${work}/package" ${only_given} "${both}")
refused("an old Boost, installed" ${too_old} ${ways})

# Another find_package(Boost) came first. A new Boost that could be found later does not help.
string(REPLACE ";" "\;" new "${boost_prefix}")
set(all "-DCMAKE_PREFIX_PATH=${work}/installed\;${old}\;${new}")
configure("${work}/folder_second" "${all}")
refused("a folder after an old Boost" ${first} ${ways}
    "Then add holdfast before the project's own find_package(Boost).")
configure("${work}/folder_second" "${all}" -DHOLDFAST_FETCH_BOOST=ON)
refused("a folder after an old Boost, with a download" ${first}
    "HOLDFAST_FETCH_BOOST cannot replace it.")
configure("${work}/package_second" "${all}")
refused("installed, after an old Boost" ${first} ${ways})
configure("${work}/package_optional" "${all}")
if(NOT result EQUAL 0)
    message(FATAL_ERROR "an optional holdfast is not optional:\n${out}")
endif()
has("an optional holdfast" "found: 0")
# The way out: a new one for the whole project.
configure("${work}/folder_second" "-DCMAKE_PREFIX_PATH=${new}\;${old}")
if(NOT result EQUAL 0)
    message(FATAL_ERROR "a new Boost that the project found itself is refused:\n${out}")
endif()

# The compiler says it before all else, for each header that includes one of Boost.
file(GLOB headers "${source}/include/holdfast/*.hpp")
set(checked 0)
foreach(header IN LISTS headers)
    file(READ "${header}" text)
    if(NOT text MATCHES "#include <boost/")
        continue()
    endif()
    math(EXPR checked "${checked} + 1")
    foreach(kind old no)
        set(folders -I "${source}/include")
        set(text "holdfast needs Boost 1.92 or newer, and the compiler found none.")
        if(kind STREQUAL old)
            list(APPEND folders -I "${old}/include")
            set(text "holdfast needs Boost 1.92 or newer, but the compiler found .*1_74")
        elseif(EXISTS /usr/include/boost/version.hpp OR EXISTS /usr/local/include/boost/version.hpp)
            continue()
        endif()
        execute_process(COMMAND "${compiler}" -std=c++20 -fsyntax-only ${folders} "${header}"
            RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE out)
        string(REGEX MATCH "error: [^\n]*" error "${out}")
        if(result EQUAL 0 OR NOT error MATCHES "${text}" OR NOT error MATCHES "CMAKE_PREFIX_PATH"
                OR NOT error MATCHES "HOLDFAST_FETCH_BOOST")
            message(FATAL_ERROR "${header}, ${kind} Boost: not the first error:\n${out}")
        endif()
    endforeach()
endforeach()
if(checked LESS 8)
    message(FATAL_ERROR "only ${checked} headers were checked")
endif()
