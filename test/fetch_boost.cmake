# HOLDFAST_FETCH_BOOST on an archive with the layout of a Boost release. The archive has one header,
# which is enough to configure the project and to compile a source without Boost. And the way of
# tools/setup, on the same archive.
cmake_minimum_required(VERSION 3.22)
file(REMOVE_RECURSE "${work}")
file(STRINGS "${boost}/boost/version.hpp" present REGEX "^#define BOOST_VERSION ")

# pack(name line): an archive, in which a line stands for the version in version.hpp.
function(pack name line)
    file(READ "${boost}/boost/version.hpp" text)
    string(REPLACE "${present}" "${line}" text "${text}")
    file(WRITE "${work}/${name}/boost_1_92_0/boost/version.hpp" "${text}")
    execute_process(COMMAND "${CMAKE_COMMAND}" -E tar czf "${work}/${name}.tar.gz" boost_1_92_0
        WORKING_DIRECTORY "${work}/${name}" COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# configure(name archive sum): sets `result` and `out`.
function(configure name archive sum)
    execute_process(COMMAND "${CMAKE_COMMAND}" -S "${source}" -B "${work}/build_${name}" -G Ninja
            "-DCMAKE_CXX_COMPILER=${compiler}"
            -DHOLDFAST_FETCH_BOOST=ON -DCMAKE_DISABLE_FIND_PACKAGE_Boost=ON
            "-DHOLDFAST_BOOST_URL=file://${work}/${archive}.tar.gz" "-DHOLDFAST_BOOST_SHA256=${sum}"
        RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE out)
    set(result "${result}" PARENT_SCOPE)
    string(REGEX REPLACE "[ \n]+" " " out "${out}") # CMake breaks the lines of its errors
    set(out "${out}" PARENT_SCOPE)
endfunction()

function(refuses name archive sum message)
    configure(${name} ${archive} "${sum}")
    if(result EQUAL 0 OR NOT out MATCHES "${message}")
        message(FATAL_ERROR "${name}: no error \"${message}\" in\n${out}")
    endif()
endfunction()

pack(release "${present}")
pack(old "#define BOOST_VERSION 109100")
file(WRITE "${work}/other/boost_1_92_0/README" "no headers\n")
execute_process(COMMAND "${CMAKE_COMMAND}" -E tar czf "${work}/other.tar.gz" boost_1_92_0
    WORKING_DIRECTORY "${work}/other" COMMAND_ERROR_IS_FATAL ANY)
file(SHA256 "${work}/release.tar.gz" sum)

configure(good release ${sum})
if(NOT result EQUAL 0 OR out MATCHES "BOOST_SHA256 is empty")
    message(FATAL_ERROR "the archive is not accepted:\n${out}")
endif()
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${work}/build_good" --verbose
        --target src/CMakeFiles/holdfast_objects.dir/api/clock.cpp.o
    OUTPUT_VARIABLE out ERROR_VARIABLE out COMMAND_ERROR_IS_FATAL ANY)
# A path with a space is in quotes.
string(REPLACE "\"" "" words "${out}")
string(FIND "${words}" "-isystem ${work}/build_good/_deps/holdfast_boost-src " place)
if(place EQUAL -1)
    message(FATAL_ERROR "the compiler does not get the headers of the archive:\n${out}")
endif()

string(REPEAT 0 64 wrong)
refuses(wrong_sum release ${wrong} "SHA256 hash of")
refuses(no_sum_at_all release "no sum" "is no hexadecimal number: \"no sum\"")
refuses(too_old old "" "has Boost 1.91.0; holdfast needs 1.92 or newer")
refuses(no_boost other "" "has no boost/version.hpp")
refuses(no_file missing ${sum}
    "missing.tar.gz. does not exist|[Ff]ile not found:[^:]*missing.tar.gz")

# unpack(archive sum): sets `result` and `out`.
function(unpack archive sum)
    file(REMOVE_RECURSE "${work}/unpacked")
    execute_process(COMMAND "${CMAKE_COMMAND}" -D "folder=${work}/unpacked"
            -D "HOLDFAST_BOOST_URL=file://${work}/${archive}.tar.gz"
            -D "HOLDFAST_BOOST_SHA256=${sum}" -P "${source}/cmake/holdfast_unpack_boost.cmake"
        RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE out)
    set(result "${result}" PARENT_SCOPE)
    string(REGEX REPLACE "[ \n]+" " " out "${out}")
    set(out "${out}" PARENT_SCOPE)
endfunction()

unpack(release ${wrong})
if(result EQUAL 0 OR NOT out MATCHES "has the SHA-256 ${sum} and not ${wrong}")
    message(FATAL_ERROR "an archive with another sum is unpacked:\n${out}")
endif()
unpack(missing ${sum})
if(result EQUAL 0 OR NOT out MATCHES "missing.tar.gz cannot be downloaded: ")
    message(FATAL_ERROR "no error about an archive that is missing:\n${out}")
endif()
unpack(release ${sum})
if(NOT result EQUAL 0)
    message(FATAL_ERROR "the archive is not unpacked:\n${out}")
endif()
foreach(components headers json)
    file(WRITE "${work}/finder/CMakeLists.txt" "cmake_minimum_required(VERSION 3.22)\n"
        "project(finder LANGUAGES CXX)\n"
        "find_package(Boost 1.92 CONFIG REQUIRED COMPONENTS ${components})\n"
        "get_target_property(folder Boost::headers INTERFACE_INCLUDE_DIRECTORIES)\n"
        "message(STATUS \"found in \${folder}\")\n")
    file(REMOVE_RECURSE "${work}/finder/build")
    execute_process(COMMAND "${CMAKE_COMMAND}" -S "${work}/finder" -B "${work}/finder/build"
            -G Ninja "-DCMAKE_CXX_COMPILER=${compiler}" "-DCMAKE_PREFIX_PATH=${work}/unpacked/usr"
        RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE out)
    if(components STREQUAL "headers")
        if(NOT result EQUAL 0 OR NOT out MATCHES "found in ${work}/unpacked/usr/include\n")
            message(FATAL_ERROR "find_package does not find the headers:\n${out}")
        endif()
    elseif(result EQUAL 0 OR NOT out MATCHES "no json")
        message(FATAL_ERROR "find_package finds a library that is not there:\n${out}")
    endif()
endforeach()
