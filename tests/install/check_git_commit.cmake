# The commit that a build carries is the one it was built from, and says when files differ from it.
# cmake -DSOURCE=... -DFOLDER=... -P check_git_commit.cmake
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER}/repository)

function(git)
  execute_process(COMMAND git -C ${FOLDER}/repository -c user.name=a -c user.email=a@b -c commit.gpgsign=false ${ARGN}
    OUTPUT_VARIABLE output OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  set(output "${output}" PARENT_SCOPE)
endfunction()

function(expect commit)
  execute_process(COMMAND ${CMAKE_COMMAND} -DOUTPUT=${FOLDER}/git_commit.h -DSOURCE=${FOLDER}/repository
    -P ${SOURCE}/cmake/git_commit.cmake COMMAND_ERROR_IS_FATAL ANY)
  file(READ ${FOLDER}/git_commit.h header)
  if(NOT header STREQUAL "#define RIDGELINE_GIT_COMMIT \"${commit}\"\n")
    message(FATAL_ERROR "expected ${commit}: ${header}")
  endif()
endfunction()

git(init -q)
file(WRITE ${FOLDER}/repository/file "one")
git(add file)
git(commit -q -m one)
git(rev-parse --short HEAD)
expect(${output})
file(WRITE ${FOLDER}/repository/file "two, longer")
expect(${output}-dirty)
git(commit -q -a -m two)
git(rev-parse --short HEAD)
expect(${output})
