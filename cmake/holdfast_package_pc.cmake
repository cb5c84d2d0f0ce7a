# CPack runs this on the files of a package. Its holdfast.pc names no folder of Boost, which is a
# folder of this machine.
file(GLOB_RECURSE files "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*/holdfast.pc")
foreach(file IN LISTS files)
    file(READ "${file}" text)
    string(REGEX REPLACE "boost_includedir=[^\n]*\n" "" text "${text}")
    string(REPLACE " -I\${boost_includedir}" "" text "${text}")
    file(WRITE "${file}" "${text}")
endforeach()
