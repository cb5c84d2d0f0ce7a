# CPack runs this on a finished package. It takes the scripts out that CPack adds for ldconfig, as
# the package has a trigger for that. dpkg keeps the scripts of a removed package, and so remembers
# the package; a trigger leaves nothing.
foreach(package IN LISTS CPACK_PACKAGE_FILES)
    set(folder "${CPACK_TEMPORARY_DIRECTORY}/repacked")
    file(REMOVE_RECURSE "${folder}")
    execute_process(COMMAND dpkg-deb --raw-extract "${package}" "${folder}"
        COMMAND_ERROR_IS_FATAL ANY)
    file(REMOVE "${folder}/DEBIAN/postinst" "${folder}/DEBIAN/postrm")
    execute_process(
        COMMAND dpkg-deb --root-owner-group "-Z${CPACK_DEBIAN_COMPRESSION_TYPE}"
            --build "${folder}" "${package}"
        OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endforeach()
