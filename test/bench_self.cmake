# Does bench.cmake accept and refuse what it should? This script is also the program that it runs:
# each run writes the next of the named results to the file of the last argument.
#   cmake -D work=FOLDER -P bench_self.cmake
set(good "{\"a\":1,\"runs\":[{\"ratio\":0.9}]}")
set(null "{\"a\":1,\"runs\":[{\"ratio\":null}]}")
set(missing "{\"a\":1,\"runs\":[{}]}")
set(infinite "{\"a\":1,\"runs\":[{\"ratio\":1e99999}]}")

if(DEFINED results)
    string(REPLACE "," ";" results "${results}")
    list(LENGTH results all)
    file(READ "${counter}" count)
    math(EXPR next "(${count} + 1) % ${all}")
    file(WRITE "${counter}" "${next}")
    math(EXPR last "${CMAKE_ARGC} - 1")
    list(GET results ${count} result)
    file(WRITE "${CMAKE_ARGV${last}}" "${${result}}")
    return()
endif()

function(expect expected results)
    file(WRITE "${work}/counter" 0)
    set(command "${CMAKE_COMMAND}" "-Dresults=${results}" "-Dcounter=${work}/counter"
        -P "${CMAKE_CURRENT_LIST_FILE}")
    execute_process(COMMAND "${CMAKE_COMMAND}" -D "command=${command}"
        -D "json=${work}/result.json" -D "keys=a;runs/0/ratio"
        -P "${CMAKE_CURRENT_LIST_DIR}/bench.cmake"
        RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
    set(outcome refused)
    if(code EQUAL 0)
        set(outcome accepted)
    endif()
    if(NOT outcome STREQUAL expected)
        message(SEND_ERROR "${results}: ${outcome}\n${out}")
    endif()
endfunction()

expect(accepted good)
expect(accepted null,good)
expect(accepted null,missing,good)
expect(refused null,null,null,good)
expect(refused null)
expect(refused missing)
expect(refused infinite)
