# Writes build_info.cc if its text changes, so that only a new commit, the first
# local change or another digest rebuilds it. Run at every build:
#   cmake -DSOURCE=.. -DOUT=.. -DVERSION=.. -DCOMPILER=.. -DFLAGS=.. -DLIBRARIES=..
#     -DCUDA=.. -P build_info.cmake
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
# The digest covers everything that determines the program: sources, compiler,
# flags and libraries. It does not depend on the folder, on the commit, on the
# presets and recipes, which only say what to measure, or on harness/papers, which
# measures nothing that a result file contains.
set(sources CMakeLists.txt cuda/cuda.cmake)
foreach(folder reference optimized cuda harness)
  file(GLOB_RECURSE found RELATIVE ${SOURCE}
    ${SOURCE}/${folder}/*.h ${SOURCE}/${folder}/*.cc ${SOURCE}/${folder}/*.cu)
  list(APPEND sources ${found})
endforeach()
list(FILTER sources EXCLUDE REGEX "^harness/papers/")
list(SORT sources)
set(parts "${COMPILER}\n${FLAGS}\n${LIBRARIES}\n${CUDA}\n")
foreach(source IN LISTS sources)
  file(SHA256 ${SOURCE}/${source} digest)
  string(APPEND parts "${source} ${digest}\n")
endforeach()
string(SHA256 program "${parts}")
string(SUBSTRING ${program} 0 16 program)
set(text "#include \"harness/machine/build_info.h\"

namespace subquad {

const char* const kVersion = \"${VERSION}\";
const char* const kCommit = \"${commit}\";
const bool kDirty = ${dirty};
const char* const kProgram = \"${program}\";
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
