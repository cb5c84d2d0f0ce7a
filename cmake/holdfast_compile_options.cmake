# How our own targets are compiled. None of it reaches a consumer.

set(HOLDFAST_SANITIZE "" CACHE STRING "Sanitizers for everything: address,undefined or thread")

if(HOLDFAST_SANITIZE)
    add_compile_options(-fsanitize=${HOLDFAST_SANITIZE} -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${HOLDFAST_SANITIZE})
    if(HOLDFAST_SANITIZE MATCHES undefined)
        add_compile_options(-fno-sanitize-recover=undefined)
        if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
            # clang 14 cannot assemble Asio's coroutines with it.
            add_compile_options(-fno-sanitize=function)
        endif()
    endif()
    # Recycled frames hide leaks and uses after the end.
    add_compile_definitions(BOOST_ASIO_DISABLE_AWAITABLE_FRAME_RECYCLING)
endif()

if(HOLDFAST_FUZZ)
    # Coverage of the library too; and the standard library checks its preconditions. Timers of Asio
    # go by std::chrono::steady_clock alone, which read_path.cpp replaces.
    add_compile_options(-fsanitize=fuzzer-no-link)
    add_compile_definitions(_GLIBCXX_ASSERTIONS BOOST_ASIO_DISABLE_TIMERFD)
endif()

function(holdfast_compile_options target)
    target_compile_features(${target} PUBLIC cxx_std_20)
    set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
    if(HOLDFAST_WARNINGS)
        target_compile_options(${target} PRIVATE -Wall -Wextra -Wconversion -Wshadow -Werror)
        if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
            # A false alarm about string concatenation: GCC bug 105651.
            target_compile_options(${target} PRIVATE -Wno-restrict)
        endif()
        if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND HOLDFAST_SANITIZE)
            # GCC's manual: with -fsanitize this one has more false alarms.
            target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
        endif()
    endif()
endfunction()

# Asio's exceptions have the place where they are thrown: a path of the machine that compiled the
# library. In builds for use that is the path in the folder of the headers, boost/asio/..; debug
# information keeps whole paths, as debuggers open these files.
function(holdfast_hide_paths target)
    set(folders "$<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>")
    set(glue "/=$<SEMICOLON>-fmacro-prefix-map=")
    target_compile_options(${target} PRIVATE
        "$<$<NOT:$<CONFIG:Debug>>:-fmacro-prefix-map=$<JOIN:${folders},${glue}>/=>")
endfunction()
