# What find_package(holdfast) and pkg-config need, and the command with its manual page where it is
# built.
include(CMakePackageConfigHelpers)

# holdfast.pc. A static library needs its own libraries at the user's link; a shared one brings
# them. Boost has no file for pkg-config, so ours names its folder.
function(holdfast_write_pc library file)
    set(pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
    set(pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
    set(pc_prefix "${CMAKE_INSTALL_PREFIX}")
    if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
        file(RELATIVE_PATH pc_prefix "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
        set(pc_prefix "\${pcfiledir}/${pc_prefix}")
        string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
    else()
        set(pc_libdir "${CMAKE_INSTALL_LIBDIR}")
    endif()
    if(IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
        set(pc_includedir "${CMAKE_INSTALL_INCLUDEDIR}")
    endif()
    set(pc_boost "\${includedir}")
    holdfast_boost_in_use(boost)
    if(boost)
        list(GET boost 1 pc_boost)
    endif()
    # pkg-config splits its output into words.
    foreach(path pc_prefix pc_includedir pc_libdir pc_boost)
        string(REPLACE " " "\\ " ${path} "${${path}}")
    endforeach()
    get_target_property(form ${library} TYPE)
    set(pc_requires)
    if(form STREQUAL STATIC_LIBRARY)
        set(pc_requires "Requires: openssl >= 3.0\n")
    endif()
    set(pc_libs "-L\${libdir} -lholdfast")
    if(CMAKE_THREAD_LIBS_INIT)
        string(APPEND pc_libs " ${CMAKE_THREAD_LIBS_INIT}")
    endif()
    configure_file("${PROJECT_SOURCE_DIR}/cmake/holdfast.pc.in" "${file}" @ONLY)
    # The library for unit tests, which needs the other one.
    get_filename_component(folder "${file}" DIRECTORY)
    configure_file("${PROJECT_SOURCE_DIR}/cmake/holdfast-testing.pc.in"
        "${folder}/holdfast-testing.pc" @ONLY)
endfunction()

# holdfast_install(library folder [arguments of install]): a library and its packages. CMake mixes
# up two packages that have one folder.
function(holdfast_install library folder)
    set(config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/${folder}")
    set(made "${PROJECT_BINARY_DIR}/${library}_package")
    holdfast_write_pc(${library} "${made}/holdfast.pc")
    get_target_property(form ${library} TYPE)
    configure_file("${PROJECT_SOURCE_DIR}/cmake/holdfast-config.cmake.in"
        "${made}/holdfast-config.cmake" @ONLY)
    install(TARGETS ${library} EXPORT ${library}-targets
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" ${ARGN}
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" ${ARGN})
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/holdfast"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" ${ARGN})
    install(EXPORT ${library}-targets FILE holdfast-targets.cmake NAMESPACE holdfast::
        DESTINATION "${config_dir}" ${ARGN})
    install(FILES "${made}/holdfast-config.cmake"
        "${PROJECT_BINARY_DIR}/holdfast-config-version.cmake"
        "${PROJECT_SOURCE_DIR}/cmake/holdfast_boost.cmake"
        DESTINATION "${config_dir}" ${ARGN})
    install(FILES "${made}/holdfast.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" ${ARGN})
    install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}"
        RENAME copyright ${ARGN})
endfunction()

# doc/versions.md: each 0.x differs from the others.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/holdfast-config-version.cmake"
    COMPATIBILITY SameMinorVersion)
holdfast_install(holdfast holdfast)
install(TARGETS holdfast_testing EXPORT holdfast-targets
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(FILES "${PROJECT_BINARY_DIR}/holdfast_package/holdfast-testing.pc"
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
get_target_property(form holdfast TYPE)
if(HOLDFAST_TESTS AND form STREQUAL STATIC_LIBRARY)
    # For the tests of consumers: cmake --install build --component shared_form.
    holdfast_install(holdfast_shared holdfast-shared COMPONENT shared_form EXCLUDE_FROM_ALL)
endif()

# cmake --build build --target uninstall
if(PROJECT_IS_TOP_LEVEL)
    add_custom_target(uninstall
        COMMAND "${CMAKE_COMMAND}" -D "manifest=${PROJECT_BINARY_DIR}/install_manifest.txt"
            -P "${PROJECT_SOURCE_DIR}/cmake/holdfast_uninstall.cmake"
        COMMENT "Removing what was installed last" VERBATIM)
endif()

if(TARGET holdfast_command)
    # It finds a shared library in any prefix.
    file(RELATIVE_PATH libraries "/prefix/${CMAKE_INSTALL_BINDIR}"
        "/prefix/${CMAKE_INSTALL_LIBDIR}")
    if(form STREQUAL SHARED_LIBRARY AND NOT APPLE AND NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
        set_target_properties(holdfast_command PROPERTIES INSTALL_RPATH "$ORIGIN/${libraries}")
    endif()
    install(TARGETS holdfast_command RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
    file(GLOB pages CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/doc/man/*.1")
    install(FILES ${pages} DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
    file(GLOB completions CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/command/completion/*")
    install(FILES ${completions}
        DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/bash-completion/completions")
    # The pages that its messages name, those to which these lead, and the files for Prometheus.
    file(GLOB documents CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/doc/*.md")
    install(FILES ${documents} DESTINATION "${CMAKE_INSTALL_DOCDIR}")
    install(FILES "${PROJECT_SOURCE_DIR}/doc/monitoring/alerts.yml"
        "${PROJECT_SOURCE_DIR}/doc/monitoring/dashboard.json"
        DESTINATION "${CMAKE_INSTALL_DOCDIR}/monitoring")
endif()
