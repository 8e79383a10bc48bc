# cmake --install: the program with its completions, manual page and peers' scripts; the harness and the library as a
# CMake package, and the library for pkg-config.
set(generated ${PROJECT_BINARY_DIR}/share)
set(texts ${generated}/ridgeline.bash ${generated}/_ridgeline ${generated}/ridgeline.fish ${generated}/ridgeline.1)
add_custom_command(OUTPUT ${texts} DEPENDS ridgeline VERBATIM
  COMMAND ${CMAKE_COMMAND} -E make_directory ${generated}
  COMMAND $<TARGET_FILE:ridgeline> completion bash > ${generated}/ridgeline.bash
  COMMAND $<TARGET_FILE:ridgeline> completion zsh > ${generated}/_ridgeline
  COMMAND $<TARGET_FILE:ridgeline> completion fish > ${generated}/ridgeline.fish
  COMMAND $<TARGET_FILE:ridgeline> man > ${generated}/ridgeline.1)
add_custom_target(ridgeline_texts ALL DEPENDS ${texts})

install(TARGETS ridgeline)
install(FILES ${generated}/ridgeline.bash RENAME ridgeline
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${generated}/_ridgeline DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${generated}/ridgeline.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES ${generated}/ridgeline.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(DIRECTORY peers DESTINATION ${CMAKE_INSTALL_DATADIR}/ridgeline FILES_MATCHING PATTERN "*.py"
  PATTERN __pycache__ EXCLUDE)

# find_package(ridgeline): the targets ridgeline::harness, ridgeline::ridgeline and ridgeline::ridgeline_static.
include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/ridgeline)
write_basic_package_version_file(${generated}/ridgelineConfigVersion.cmake COMPATIBILITY SameMajorVersion)
file(CONFIGURE OUTPUT ${generated}/ridgelineConfig.cmake CONTENT "include(CMakeFindDependencyMacro)
find_dependency(Threads)
include(\${CMAKE_CURRENT_LIST_DIR}/ridgelineTargets.cmake OPTIONAL)
include(\${CMAKE_CURRENT_LIST_DIR}/ridgelineLibraryTargets.cmake OPTIONAL)
" @ONLY)
install(TARGETS ridgeline_harness EXPORT ridgelineTargets COMPONENT harness)
install(EXPORT ridgelineTargets NAMESPACE ridgeline:: DESTINATION ${package} COMPONENT harness)
install(TARGETS ridgeline_shared ridgeline_static EXPORT ridgelineLibraryTargets COMPONENT library)
install(EXPORT ridgelineLibraryTargets NAMESPACE ridgeline:: DESTINATION ${package} COMPONENT library)

# pkg-config finds the prefix from where its file lies, so that the tree can be moved.
file(RELATIVE_PATH to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
file(CONFIGURE OUTPUT ${generated}/ridgeline.pc CONTENT "prefix=\${pcfiledir}/${to_prefix}
libdir=\${prefix}/${CMAKE_INSTALL_LIBDIR}
includedir=\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}

Name: ridgeline
Description: Attention with its gradients on your own buffers
Version: ${PROJECT_VERSION}
Libs: -L\${libdir} -lridgeline
Libs.private: -lstdc++ -lm -ldl -pthread
Cflags: -I\${includedir}
" @ONLY)
install(FILES ${generated}/ridgeline.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)

# Each of the two can be installed by itself.
foreach(component harness library)
  install(FILES ${generated}/ridgelineConfig.cmake ${generated}/ridgelineConfigVersion.cmake DESTINATION ${package}
    COMPONENT ${component})
  install(DIRECTORY include/ridgeline DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT ${component})
endforeach()

# What the Python wheel holds besides python/ridgeline (pyproject.toml): the library under its plain name, and the program
# where it finds the peers' scripts. A wheel has no links.
set(wheel EXCLUDE_FROM_ALL COMPONENT python)
install(FILES $<TARGET_FILE:ridgeline_shared> DESTINATION . RENAME libridgeline.so ${wheel})
install(TARGETS ridgeline DESTINATION bin ${wheel})
install(DIRECTORY peers DESTINATION share/ridgeline ${wheel} FILES_MATCHING PATTERN "*.py" PATTERN __pycache__ EXCLUDE)
