# Installs a finished build into a folder of its own, builds the example against that, and runs it twice.
# cmake -DBUILD=build/release -DSOURCE=. -DCOMPILER=g++ -DGENERATOR=Ninja -P check_install.cmake
set(folder ${BUILD}/install_check)
file(REMOVE_RECURSE ${folder})

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(code)
    message(FATAL_ERROR "${ARGV} ended with ${code}:\n${out}")
  endif()
  set(output "${out}" PARENT_SCOPE)
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${folder}/prefix)
foreach(file bin/ridgeline share/bash-completion/completions/ridgeline share/zsh/site-functions/_ridgeline
    share/fish/vendor_completions.d/ridgeline.fish share/man/man1/ridgeline.1 share/ridgeline/peers/__main__.py
    include/ridgeline/harness.h)
  if(NOT EXISTS ${folder}/prefix/${file})
    message(FATAL_ERROR "${file} was not installed")
  endif()
endforeach()
run(${folder}/prefix/bin/ridgeline --version)
run(${CMAKE_COMMAND} -S ${SOURCE}/examples/measure_callable -B ${folder}/example -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${COMPILER}
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH=${folder}/prefix)
run(${CMAKE_COMMAND} --build ${folder}/example)
run(${folder}/example/measure_callable ${folder}/baseline.jsonl)
run(${folder}/example/measure_callable ${folder}/results.jsonl ${folder}/baseline.jsonl)
if(NOT output MATCHES "saxpy n=2097152, forward: (SAME|FASTER|SLOWER|UNCLEAR)")
  message(FATAL_ERROR "no verdict in:\n${output}")
endif()
