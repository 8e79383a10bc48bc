# fmt is compiled once, in src/base/fmt_library.cc: Debian ships it as a shared library only, which a program that is
# copied to another machine would miss. That file names fmt's own template instances, which differ between versions, so
# it is tried here; where it does not fit, fmt's header-only form serves, which every file then compiles again.
if(NOT DEFINED FMT_COMPILED_ONCE)
  try_compile(FMT_COMPILED_ONCE ${PROJECT_BINARY_DIR}/fmt_check
    SOURCES ${PROJECT_SOURCE_DIR}/src/base/fmt_library.cc ${PROJECT_SOURCE_DIR}/cmake/fmt_check.cc
    CMAKE_FLAGS -DINCLUDE_DIRECTORIES=${FMT_INCLUDE_DIR} CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON)
  if(NOT FMT_COMPILED_ONCE)
    message(STATUS "fmt in ${FMT_INCLUDE_DIR} has other instances than src/base/fmt_library.cc: using it header-only")
  endif()
endif()
set(FMT_DEFINITIONS $<$<NOT:$<BOOL:${FMT_COMPILED_ONCE}>>:FMT_HEADER_ONLY>)
# fmt's own code is not ours to warn about.
set_source_files_properties(src/base/fmt_library.cc PROPERTIES COMPILE_OPTIONS "-w;-O1" SKIP_PRECOMPILE_HEADERS ON)
