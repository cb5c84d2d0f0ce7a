# Looks after the ```cpp blocks of a document. There are two ways to call it:
#   -D document=FILE -D work=FOLDER -D compiler=.. -D include=.. -D boost=..
#       compiles each block. A block without an #include gets the usual ones.
#   -D document=FILE -D program=FILE
#       writes the first block as a program. It must have a main(). The address of its instance,
#       127.0.0.1:6379, becomes the value of HOLDFAST_README_INSTANCE, so that a test can run it on
#       a server of its own.
# Keep backticks out of the blocks: they would end them.
file(READ "${document}" text)
string(REPLACE ";" "\\;" text "${text}")
string(REGEX MATCHALL "```cpp\n[^`]*```" blocks "${text}")
list(LENGTH blocks count)
if(count EQUAL 0)
    message(FATAL_ERROR "${document} shows no code")
endif()

function(code_of block)
    string(REGEX REPLACE "^```cpp\n" "" code "${block}")
    string(REGEX REPLACE "```$" "" code "${code}")
    set(code "${code}" PARENT_SCOPE)
endfunction()

if(program)
    list(GET blocks 0 first)
    code_of("${first}")
    set(address "\"127.0.0.1:6379\"")
    string(FIND "${code}" "int main()" main)
    string(FIND "${code}" "${address}" given)
    if(main EQUAL -1 OR given EQUAL -1)
        message(FATAL_ERROR
            "the first block of ${document} has no main(), or no instance at ${address}")
    endif()
    string(REPLACE "${address}" "std::getenv(\"HOLDFAST_README_INSTANCE\")" code "${code}")
    file(WRITE "${program}" "#include <cstdlib>\n${code}")
    return()
endif()

file(MAKE_DIRECTORY "${work}")
set(system)
foreach(folder ${boost})
    list(APPEND system -isystem "${folder}")
endforeach()
set(usual "#include <holdfast/holdfast.hpp>
#include <boost/asio.hpp>
#include <iostream>
#include <thread>
namespace asio = boost::asio;
using namespace std::chrono_literals;
")
set(number 0)
foreach(block ${blocks})
    code_of("${block}")
    math(EXPR number "${number} + 1")
    set(file "${work}/block_${number}.cpp")
    if(NOT code MATCHES "#include")
        set(code "${usual}${code}")
    endif()
    file(WRITE "${file}" "${code}")
    execute_process(COMMAND "${compiler}" -std=c++20 -Wall -Wextra -fsyntax-only "-I${include}"
            ${system} "${file}"
        RESULT_VARIABLE result ERROR_VARIABLE errors)
    if(NOT result EQUAL 0)
        message(FATAL_ERROR "block ${number} of ${document} does not compile:\n${errors}")
    endif()
endforeach()
message(STATUS "${number} blocks of ${document} compile")
