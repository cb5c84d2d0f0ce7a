# Runs a benchmark's scenario for a moment: are the figures that it promises there?
execute_process(COMMAND ${command} --json "${json}" RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE out)
if(NOT result EQUAL 0)
    message(FATAL_ERROR "${command}:\n${out}")
endif()
file(READ "${json}" text)
foreach(key ${keys})
    string(REPLACE "/" ";" path "${key}")
    string(JSON value GET "${text}" ${path}) # fails where it is missing
endforeach()
