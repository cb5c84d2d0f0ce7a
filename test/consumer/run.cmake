# Builds and runs what uses holdfast. `way` says what:
#   install, fetched: the consumer, with holdfast installed, or with its sources fetched;
#   subdirectory: the parts of the consumer compile with the sources as a folder. `fetched` has such
#       a folder too, and builds the library in it;
#   tls, boost_redis, shared, configuration: these parts of CMakeLists.txt, in the build of
#       `install`;
#   shared_form: the consumer, with the shared library installed;
#   pkg_config: the consumer, compiled without CMake, with both packages;
#   other_compiler: the same with another compiler than the library's.
function(run)
    execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE out)
    if(NOT result EQUAL 0)
        message(FATAL_ERROR "${ARGN}:\n${out}")
    endif()
endfunction()

function(fails_to_link configuration)
    execute_process(
        COMMAND "${CMAKE_COMMAND}" --build "${work}/build" --target configuration_${configuration}
        RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE out)
    if(result EQUAL 0)
        message(FATAL_ERROR "links although its configuration differs: ${configuration}")
    endif()
    # The linker names what makes a client, and what a part of the program calls that is given a
    # lock.
    foreach(function "client::client\\(" "async_acquire\\(")
        set(undefined "${function}[^\n]*needs_a_holdfast_compiled_with")
        foreach(word ${ARGN})
            if(NOT out MATCHES "${undefined}[^\n]*${word}")
                message(FATAL_ERROR "${configuration}: no \"${word}\" for ${function} in\n${out}")
            endif()
        endforeach()
    endforeach()
endfunction()

# Compiles the consumer in a folder of its own, and links and runs it with each package.
function(compile_with_pkg_config folder)
    set(flags -std=c++20 -O0)
    file(REMOVE_RECURSE "${folder}")
    file(MAKE_DIRECTORY "${folder}")
    set(objects)
    foreach(package ${ARGN})
        file(GLOB_RECURSE files "${package}/*/holdfast.pc")
        get_filename_component(pc_folder "${files}" DIRECTORY)
        get_filename_component(libdir "${pc_folder}" DIRECTORY)
        set(ENV{PKG_CONFIG_PATH} "${pc_folder}")
        foreach(part cflags libs)
            execute_process(COMMAND pkg-config --${part} holdfast
                RESULT_VARIABLE result OUTPUT_VARIABLE ${part} ERROR_VARIABLE errors)
            if(NOT result EQUAL 0)
                message(FATAL_ERROR "pkg-config --${part} holdfast: ${errors}")
            endif()
            separate_arguments(${part} UNIX_COMMAND "${${part}}")
        endforeach()
        if(NOT objects)
            foreach(name main use_holdfast)
                run("${compiler}" ${flags} ${cflags} -c "${here}/${name}.cpp"
                    -o "${folder}/${name}.o")
                list(APPEND objects "${folder}/${name}.o")
            endforeach()
        endif()
        get_filename_component(name "${package}" NAME)
        run("${compiler}" ${objects} ${libs} "-Wl,-rpath,${libdir}" -pthread
            -o "${folder}/${name}")
        run("${folder}/${name}")
        if(EXISTS "${pc_folder}/holdfast-testing.pc")
            execute_process(COMMAND pkg-config --cflags --libs holdfast-testing
                OUTPUT_VARIABLE both COMMAND_ERROR_IS_FATAL ANY)
            separate_arguments(both UNIX_COMMAND "${both}")
            run("${compiler}" ${flags} "${here}/use_testing.cpp" ${both}
                "-Wl,-rpath,${libdir}" -pthread -o "${folder}/unit_test")
            run("${folder}/unit_test")
        endif()
    endforeach()
endfunction()

get_filename_component(here "${CMAKE_SCRIPT_MODE_FILE}" DIRECTORY)
if(way MATCHES "^(install|subdirectory|fetched|shared_form)$")
    file(REMOVE_RECURSE "${work}")
    file(MAKE_DIRECTORY "${work}")
    # The consumer finds what we found, in the environment and not on a command line that would
    # split the list.
    list(PREPEND prefix "${work}/prefix")
    if(DEFINED ENV{CMAKE_PREFIX_PATH})
        list(APPEND prefix "$ENV{CMAKE_PREFIX_PATH}")
    endif()
    list(JOIN prefix ":" joined)
    set(ENV{CMAKE_PREFIX_PATH} "${joined}")
    set(arguments -S "${here}" -B "${work}/build" -G Ninja
        "-DCMAKE_CXX_COMPILER=${compiler}" -DCMAKE_BUILD_TYPE=Debug)
    if(way STREQUAL install)
        run("${CMAKE_COMMAND}" --install "${build}" --prefix "${work}/prefix")
    elseif(way STREQUAL shared_form)
        run("${CMAKE_COMMAND}" --install "${build}" --prefix "${work}/prefix"
            --component shared_form)
        # A program that hides its own symbols shares those of the library all the same.
        list(APPEND arguments -DCMAKE_CXX_VISIBILITY_PRESET=hidden -DHOLDFAST_SHARED_FORM=ON)
    else()
        if(way STREQUAL fetched)
            set(archive "${work}/holdfast.tar.gz")
            execute_process(
                COMMAND "${CMAKE_COMMAND}" -E tar czf "${archive}" CMakeLists.txt cmake include src
                WORKING_DIRECTORY "${source}" RESULT_VARIABLE result)
            if(NOT result EQUAL 0)
                message(FATAL_ERROR "no archive of ${source}")
            endif()
            set(source "file://${archive}")
            # The library is compiled in a few large files, in half the time.
            list(APPEND arguments -DHOLDFAST_FETCH=ON -DCMAKE_UNITY_BUILD=ON
                -DCMAKE_CXX_FLAGS_DEBUG=-O0)
        endif()
        list(APPEND arguments "-DHOLDFAST_SOURCE=${source}")
    endif()
    run("${CMAKE_COMMAND}" ${arguments})
    if(way STREQUAL subdirectory)
        run("${CMAKE_COMMAND}" --build "${work}/build" --target use_holdfast
            CMakeFiles/consumer.dir/main.cpp.o CMakeFiles/unit_test.dir/use_testing.cpp.o)
        return()
    endif()
    set(programs consumer unit_test)
    if(way STREQUAL shared_form)
        set(programs consumer)
    endif()
    run("${CMAKE_COMMAND}" --build "${work}/build" --target ${programs})
    foreach(program ${programs})
        run("${work}/build/${program}")
    endforeach()
elseif(way STREQUAL tls)
    run("${CMAKE_COMMAND}" --build "${work}/build" --target tls)
    run("${work}/build/tls")
elseif(way STREQUAL boost_redis)
    run("${CMAKE_COMMAND}" --build "${work}/build" --target boost_redis)
    foreach(order object_before object_after library_before library_after)
        run("${work}/build/${order}")
    endforeach()
elseif(way STREQUAL shared)
    run("${CMAKE_COMMAND}" --build "${work}/build" --target shared)
    foreach(host links links_both)
        run("${work}/build/${host}")
    endforeach()
    foreach(host loads loads_both)
        run("${work}/build/${host}" "${work}/build/libplugin${suffix}")
    endforeach()
elseif(way STREQUAL pkg_config)
    compile_with_pkg_config("${work}/pkg_config" "${work}/prefix" ${shared_prefix})
elseif(way STREQUAL other_compiler)
    get_filename_component(name "${compiler}" NAME)
    compile_with_pkg_config("${work}/${name}" "${work}/prefix")
elseif(way STREQUAL configuration)
    run("${CMAKE_COMMAND}" --build "${work}/build" --target configuration_same)
    run("${work}/build/configuration_same")
    fails_to_link(tracking "::threads::" "::handler_tracking::" "::epoll::")
    fails_to_link(threads "::threads_disabled::" "::no_handler_tracking::")
    fails_to_link(boost "boost_version\\)109300")
else()
    message(FATAL_ERROR "no such way: ${way}")
endif()
