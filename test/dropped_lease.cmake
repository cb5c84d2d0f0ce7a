# Compiles refused/dropped_lease.cpp with all warnings: a lease that nobody keeps must give one.
# g++ 12 gives none for a dropped co_await, so this needs `clang`; without it, only the forms
# without co_await are checked, with `compiler`.
set(system)
foreach(folder ${boost})
    list(APPEND system -isystem "${folder}")
endforeach()
set(dropped 10 11)
if(clang)
    set(compiler "${clang}")
    list(APPEND dropped 1 2 3 4)
endif()
function(warnings_of spelling)
    execute_process(
        COMMAND "${compiler}" -std=c++20 -Wall -Wextra -fsyntax-only -DSPELLING=${spelling}
            "-I${include}" ${system} "${source}"
        RESULT_VARIABLE result ERROR_VARIABLE warnings)
    if(NOT result EQUAL 0)
        message(FATAL_ERROR "spelling ${spelling} does not compile:\n${warnings}")
    endif()
    set(warnings "${warnings}" PARENT_SCOPE)
endfunction()
warnings_of(0)
if(warnings)
    message(FATAL_ERROR "a lease that is kept gives a warning:\n${warnings}")
endif()
foreach(spelling ${dropped})
    warnings_of(${spelling})
    if(NOT warnings MATCHES "ignoring return")
        message(FATAL_ERROR "spelling ${spelling} drops its lease, and nothing warns:\n${warnings}")
    endif()
endforeach()
