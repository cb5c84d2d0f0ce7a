# What find_package(holdfast) needs.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/holdfast")

install(TARGETS holdfast EXPORT holdfast-targets)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/holdfast"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT holdfast-targets NAMESPACE holdfast:: DESTINATION "${config_dir}")

write_basic_package_version_file("${PROJECT_BINARY_DIR}/holdfast-config-version.cmake"
    COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_LIST_DIR}/holdfast-config.cmake"
    "${PROJECT_BINARY_DIR}/holdfast-config-version.cmake"
    "${CMAKE_CURRENT_LIST_DIR}/Finduriparser.cmake" DESTINATION "${config_dir}")
