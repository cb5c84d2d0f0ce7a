# Looks after the ```cpp blocks of documents. There are two ways to call it:
#   -D documents=FILE;.. -D work=FOLDER -D compiler=.. -D include=.. -D boost=..
#       compiles all blocks as one program, each in a namespace of its own.
#   -D documents=FILE -D program=FILE [-D heading=TEXT]
#       writes the first block as a program, or the first block after the heading. It must have a
#       main(). The address of its instance, 127.0.0.1:6379, becomes the value of
#       HOLDFAST_README_INSTANCE, so that a test can run it on a server of its own. A block after a
#       heading has no such address: it makes its instances itself.
# Keep backticks out of the blocks: they would end them.
function(read_blocks document)
    file(READ "${document}" text)
    if(heading)
        string(FIND "${text}" "\n${heading}\n" at)
        if(at EQUAL -1)
            message(FATAL_ERROR "${document} has no heading \"${heading}\"")
        endif()
        string(SUBSTRING "${text}" ${at} -1 text)
    endif()
    string(REPLACE ";" "\\;" escaped "${text}")
    string(REGEX MATCHALL "```cpp\n[^`]*```" blocks "${escaped}")
    list(LENGTH blocks count)
    if(count EQUAL 0)
        message(FATAL_ERROR "${document} shows no code")
    endif()
    set(text "${text}" PARENT_SCOPE)
    set(blocks "${blocks}" PARENT_SCOPE)
endfunction()

function(code_of block)
    string(REGEX REPLACE "^```cpp\n" "" code "${block}")
    string(REGEX REPLACE "```$" "" code "${code}")
    set(code "${code}" PARENT_SCOPE)
endfunction()

if(program)
    read_blocks("${documents}")
    list(GET blocks 0 first)
    code_of("${first}")
    set(address "\"127.0.0.1:6379\"")
    string(FIND "${code}" "int main()" main)
    string(FIND "${code}" "${address}" given)
    if(main EQUAL -1 OR (given EQUAL -1 AND NOT heading))
        message(FATAL_ERROR
            "the first block of ${documents} has no main(), or no instance at ${address}")
    endif()
    string(REPLACE "${address}" "std::getenv(\"HOLDFAST_README_INSTANCE\")" code "${code}")
    file(WRITE "${program}" "#include <cstdlib>\n${code}")
    return()
endif()

# The includes of all blocks go to the front.
set(usual "#include <holdfast/holdfast.hpp>
#include <boost/asio.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <iostream>
#include <thread>
")
set(names "namespace asio = boost::asio; using namespace std::chrono_literals;")
set(includes "${usual}")
set(bodies)
set(number 0)
foreach(document ${documents})
    read_blocks("${document}")
    foreach(block ${blocks})
        code_of("${block}")
        math(EXPR number "${number} + 1")
        string(FIND "${text}" "${block}" at)
        string(SUBSTRING "${text}" 0 ${at} before)
        string(REGEX MATCHALL "\n" lines "${before}")
        list(LENGTH lines line)
        math(EXPR line "${line} + 2")
        string(REGEX MATCHALL "#include [^\n]*\n" own "${code}")
        if(own)
            string(REGEX REPLACE "#include [^\n]*\n" "\n" code "${code}")
            string(APPEND includes ${own})
        else()
            set(code "${names}\n#line ${line}\n${code}")
        endif()
        string(APPEND bodies
            "#line ${line} \"${document}\"\nnamespace block_${number} {\n#line ${line}\n${code}}\n")
    endforeach()
endforeach()
file(MAKE_DIRECTORY "${work}")
set(program "${work}/blocks.cpp")
file(WRITE "${program}" "${includes}${bodies}")
set(system)
foreach(folder ${boost})
    list(APPEND system -isystem "${folder}")
endforeach()
execute_process(COMMAND "${compiler}" -std=c++20 -Wall -Wextra -fsyntax-only "-I${include}"
        ${system} "${program}"
    RESULT_VARIABLE result ERROR_VARIABLE errors)
if(NOT result EQUAL 0)
    message(FATAL_ERROR "a block does not compile:\n${errors}")
endif()
message(STATUS "${number} blocks compile")
