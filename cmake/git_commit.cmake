# Writes OUTPUT, a header that defines RIDGELINE_GIT_COMMIT: the commit that SOURCE is at, "-dirty" behind it where files
# differ from it, "" outside of a repository. Runs in every build, and touches OUTPUT only if it changes.
# cmake -DOUTPUT=... -DSOURCE=... -P git_commit.cmake
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --exclude=*
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define RIDGELINE_GIT_COMMIT \"${commit}\"\n")
