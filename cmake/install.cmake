# cmake --install: the program with its completions, manual page and peers' scripts; the harness as a CMake package.
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

# find_package(ridgeline): the target ridgeline::harness.
include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/ridgeline)
write_basic_package_version_file(${generated}/ridgelineConfigVersion.cmake COMPATIBILITY SameMajorVersion)
file(CONFIGURE OUTPUT ${generated}/ridgelineConfig.cmake CONTENT "include(CMakeFindDependencyMacro)
find_dependency(Threads)
include(\${CMAKE_CURRENT_LIST_DIR}/ridgelineTargets.cmake)
" @ONLY)
install(TARGETS ridgeline_harness EXPORT ridgelineTargets COMPONENT harness)
install(EXPORT ridgelineTargets NAMESPACE ridgeline:: DESTINATION ${package} COMPONENT harness)
install(FILES ${generated}/ridgelineConfig.cmake ${generated}/ridgelineConfigVersion.cmake DESTINATION ${package}
  COMPONENT harness)
install(DIRECTORY include/ridgeline DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT harness)
