# Plugins for libraries that have to be compiled against: built where their development packages are, opened at run
# time (src/dist/plugin_backend.h). The program needs none of them.
function(ridgeline_plugin name source include library)
  if(NOT ${include} OR NOT ${library})
    return()
  endif()
  add_library(ridgeline_${name} MODULE ${source})
  target_include_directories(ridgeline_${name} PRIVATE src)
  target_include_directories(ridgeline_${name} SYSTEM PRIVATE ${${include}})
  target_link_libraries(ridgeline_${name} PRIVATE ${${library}})
  target_compile_options(ridgeline_${name} PRIVATE -Wall -Wextra -O3)
  # Beside the program, where it is looked for.
  set_target_properties(ridgeline_${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR} UNITY_BUILD OFF)
  install(TARGETS ridgeline_${name} DESTINATION lib/ridgeline)
  add_dependencies(ridgeline ridgeline_${name})
endfunction()

find_path(GLOO_INCLUDE_DIR gloo/allreduce.h)
find_library(GLOO_LIBRARY gloo)
# Debian's folders of the two MPIs; a plain mpi.h elsewhere is one or the other, and its own define says which.
find_path(OPENMPI_INCLUDE_DIR NAMES mpi.h NO_DEFAULT_PATH PATHS ${OPENMPI_ROOT}/include
  /usr/lib/x86_64-linux-gnu/openmpi/include /usr/include/openmpi-x86_64)
find_library(OPENMPI_LIBRARY NAMES mpi NO_DEFAULT_PATH PATHS ${OPENMPI_ROOT}/lib
  /usr/lib/x86_64-linux-gnu/openmpi/lib /usr/lib64/openmpi/lib)
find_path(MPICH_INCLUDE_DIR NAMES mpi.h NO_DEFAULT_PATH PATHS ${MPICH_ROOT}/include
  /usr/include/x86_64-linux-gnu/mpich /usr/include/mpich-x86_64)
find_library(MPICH_LIBRARY NAMES mpich NO_DEFAULT_PATH PATHS ${MPICH_ROOT}/lib /usr/lib/x86_64-linux-gnu
  /usr/lib64/mpich/lib)
mark_as_advanced(GLOO_INCLUDE_DIR GLOO_LIBRARY OPENMPI_INCLUDE_DIR OPENMPI_LIBRARY MPICH_INCLUDE_DIR MPICH_LIBRARY)
ridgeline_plugin(gloo plugins/gloo.cc GLOO_INCLUDE_DIR GLOO_LIBRARY)
ridgeline_plugin(openmpi plugins/mpi.cc OPENMPI_INCLUDE_DIR OPENMPI_LIBRARY)
ridgeline_plugin(mpich plugins/mpi.cc MPICH_INCLUDE_DIR MPICH_LIBRARY)
