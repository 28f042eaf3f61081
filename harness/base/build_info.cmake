# Writes build_info.cc if its text changes, so that only a new commit or the
# first local change rebuilds it. Run at every build:
#   cmake -DSOURCE=.. -DOUT=.. -DVERSION=.. -DCOMPILER=.. -DFLAGS=.. -DCUDA=..
#     -P build_info.cmake
execute_process(COMMAND git -C ${SOURCE} rev-parse HEAD
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit)
  set(commit "unknown")
endif()
execute_process(COMMAND git -C ${SOURCE} status --porcelain --untracked-files=no
  -- . ":!reports/results" OUTPUT_VARIABLE changes ERROR_QUIET)
set(dirty false)
if(changes)
  set(dirty true)
endif()
set(text "#include \"harness/base/build_info.h\"

namespace subquad {

const char* const kVersion = \"${VERSION}\";
const char* const kCommit = \"${commit}\";
const bool kDirty = ${dirty};
const char* const kCompiler = \"${COMPILER}\";
const char* const kFlags = \"${FLAGS}\";
const char* const kCudaCompiler = \"${CUDA}\";

}  // namespace subquad
")
set(old "")
if(EXISTS ${OUT})
  file(READ ${OUT} old)
endif()
if(NOT old STREQUAL text)
  file(WRITE ${OUT} "${text}")
endif()
