# What find_package(holdfast) needs.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/holdfast")

install(TARGETS holdfast EXPORT holdfast-targets)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/holdfast" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT holdfast-targets NAMESPACE holdfast:: DESTINATION "${config_dir}")

configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/holdfast-config.cmake.in"
    "${PROJECT_BINARY_DIR}/holdfast-config.cmake" INSTALL_DESTINATION "${config_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/holdfast-config-version.cmake"
    COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/holdfast-config.cmake" "${PROJECT_BINARY_DIR}/holdfast-config-version.cmake"
    DESTINATION "${config_dir}")
