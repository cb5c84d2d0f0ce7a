# CPack runs this on the files of a package. The folder of Boost in its holdfast.pc is not one of
# this machine, but that of a package of Boost. Users name another one with
# `pkg-config --define-variable=boost_includedir=..`.
file(GLOB_RECURSE files "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*/holdfast.pc")
foreach(file IN LISTS files)
    file(READ "${file}" text)
    string(REGEX REPLACE "boost_includedir=[^\n]*" "boost_includedir=\${includedir}" text "${text}")
    file(WRITE "${file}" "${text}")
endforeach()
