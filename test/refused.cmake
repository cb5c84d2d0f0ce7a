# Compiles every way to write a body in refused/section_body.cpp: those that g++ 12 would get wrong
# must be refused there (`refuses` is 1), with a message that says what to do; all others compile.
set(system)
foreach(folder ${boost})
    list(APPEND system -isystem "${folder}")
endforeach()
function(try spelling)
    execute_process(
        COMMAND "${compiler}" -std=c++20 -Wall -Wextra -fsyntax-only -DSPELLING=${spelling}
            "-I${include}" ${system} "${source}"
        RESULT_VARIABLE result ERROR_VARIABLE errors)
    set(result "${result}" PARENT_SCOPE)
    set(errors "${errors}" PARENT_SCOPE)
endfunction()
foreach(spelling 0 1 2 3 4)
    try(${spelling})
    if(NOT result EQUAL 0)
        message(FATAL_ERROR "spelling ${spelling} does not compile:\n${errors}")
    endif()
endforeach()
foreach(spelling 10 11 12)
    try(${spelling})
    if(NOT refuses)
        if(NOT result EQUAL 0)
            message(FATAL_ERROR
                "spelling ${spelling} does not compile, and this compiler gets it right:\n"
                "${errors}")
        endif()
    elseif(result EQUAL 0)
        message(FATAL_ERROR "spelling ${spelling} compiles, and this compiler gets it wrong")
    elseif(NOT errors MATCHES "would destroy this body twice: give it a name first")
        message(FATAL_ERROR "spelling ${spelling} is refused for another reason:\n${errors}")
    endif()
endforeach()
