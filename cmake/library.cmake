# The library of include/ridgeline/ridgeline.h, attention.h and measure.h, from objects that the program has, too: shared, which
# exports rl_* and nothing else, and static. Attention needs neither OpenBLAS nor SQLite, so neither is inside.
file(STRINGS include/ridgeline/ridgeline.h rl_version_line REGEX "#define RL_VERSION [0-9]+")
string(REGEX MATCH "[0-9]+$" rl_version_number "${rl_version_line}")
math(EXPR rl_expected "10000 * ${PROJECT_VERSION_MAJOR} + 100 * ${PROJECT_VERSION_MINOR} + ${PROJECT_VERSION_PATCH}")
if(NOT rl_version_number EQUAL rl_expected)
  message(FATAL_ERROR "RL_VERSION of ridgeline.h is ${rl_version_number}, of project() ${rl_expected}: make them agree")
endif()

# An object is of a file (src/api/x.cc.o) or of a folder (unity_src.api_cxx.cxx.o).
set(api_objects "$<FILTER:$<TARGET_OBJECTS:ridgeline_core>,INCLUDE,src.api[/_]>")
set(exports ${PROJECT_SOURCE_DIR}/cmake/library_exports.txt)
add_library(ridgeline_shared SHARED ${api_objects} ${for_older_glibc})
set_target_properties(ridgeline_shared PROPERTIES LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR} EXPORT_NAME ridgeline LINK_DEPENDS ${exports})
target_link_libraries(ridgeline_shared PRIVATE $<BUILD_INTERFACE:ridgeline_core>)
target_link_options(ridgeline_shared PRIVATE LINKER:--version-script=${exports} LINKER:--gc-sections)
add_library(ridgeline::ridgeline ALIAS ridgeline_shared)

# Folders that no function of the static library reaches, which is without the harness (src/api/measure.cc); the linker of
# a program would leave them out as well.
set(unused "src.(cli|compile|kernels.reference|measure|models|profile|report|studies|text)[/._]|src/(cost/device_specs|api/measure)")
set(library_objects "$<TARGET_OBJECTS:ridgeline_core>;$<TARGET_OBJECTS:ridgeline_harness>")
add_library(ridgeline_static STATIC "$<FILTER:${library_objects},EXCLUDE,${unused}>" ${simd_objects})
set_target_properties(ridgeline_static PROPERTIES LINKER_LANGUAGE CXX)
target_link_libraries(ridgeline_static INTERFACE Threads::Threads ${CMAKE_DL_LIBS})

foreach(library ridgeline_shared ridgeline_static)
  set_target_properties(${library} PROPERTIES OUTPUT_NAME ridgeline)
  target_include_directories(${library} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()
