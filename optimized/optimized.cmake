# The CPU implementations, compiled once for each instruction set; the program
# uses the best set that its processor has (targets.h). SUBQUAD_TARGETS names
# those to build.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(all_targets sse4 avx2 avx512)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(all_targets neon)
else()
  message(FATAL_ERROR "processor: expected x86-64 or aarch64, found ${CMAKE_SYSTEM_PROCESSOR}")
endif()
set(flags_of_sse4 -march=x86-64-v2)
set(flags_of_avx2 -march=x86-64-v3)
# GCC uses only half of AVX-512's width by default.
set(flags_of_avx512 -march=x86-64-v4 -mprefer-vector-width=512)
# Highway's functions for NEON may use its cryptography instructions, which
# nothing here does.
set(flags_of_neon -march=armv8-a+crypto)
set(highway_of_sse4 HWY_SSE4)
set(highway_of_avx2 HWY_AVX2)
set(highway_of_avx512 HWY_AVX3)
set(highway_of_neon HWY_NEON)
set(SUBQUAD_TARGETS "${all_targets}" CACHE STRING "Instruction sets of the CPU programs")
foreach(target ${SUBQUAD_TARGETS})
  if(NOT target IN_LIST all_targets)
    message(FATAL_ERROR "SUBQUAD_TARGETS: expected ${all_targets}, found ${target}")
  endif()
endforeach()

# No result changes with these two flags: a comparison may become a selection
# though it might have trapped, and a square root need not set errno. Without
# them the loops over feature maps stay scalar, 2 to 4 times slower overall.
set(optimized_flags -O3 -fno-trapping-math -fno-math-errno)
if(SUBQUAD_SANITIZE)
  # Compiling checks in every unrolled loop takes an hour.
  list(TRANSFORM optimized_flags REPLACE -O3 -O1)
endif()

# subquad_for_TARGET has the options to compile a file for a target. Below the
# threshold Eigen multiplies small matrices in a loop that begins where the
# result is aligned, so that its sums depend on an address; 0 turns that off. A
# symbol that is unique in a process would not stay within its target. -Wpsabi
# warns of vectors wider than the registers. GCC 12 warns of its own AVX-512
# header (its bug 105593), under two names. Clang makes no symbol unique.
set(gcc_target_flags "")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(gcc_target_flags -fno-gnu-unique -Wno-maybe-uninitialized -Wno-uninitialized)
endif()
foreach(target ${SUBQUAD_TARGETS})
  add_library(subquad_for_${target} INTERFACE)
  target_link_libraries(subquad_for_${target} INTERFACE Eigen3::Eigen PkgConfig::HWY)
  target_compile_definitions(subquad_for_${target} INTERFACE
    SUBQUAD_TARGET_NAME="${target}" SUBQUAD_TARGET_SYMBOL=subquad_target_${target}
    SUBQUAD_HIGHWAY_TARGET=${highway_of_${target}} HWY_COMPILE_ONLY_STATIC HWY_DISABLE_PCLMUL_AES
    EIGEN_DONT_PARALLELIZE EIGEN_GEMM_TO_COEFFBASED_THRESHOLD=0)
  target_compile_options(subquad_for_${target} INTERFACE ${flags_of_${target}} -Werror=psabi
    ${gcc_target_flags})
endforeach()

if(NOT CMAKE_OBJCOPY)
  message(FATAL_ERROR "objcopy: expected that of GNU binutils, found none")
endif()
# CMake finds lld with Clang, but only new versions of lld can group objects as
# needed below.
set(linker_for_objects ${CMAKE_LINKER})
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  find_program(SUBQUAD_GNU_LINKER NAMES ld.bfd ld REQUIRED)
  mark_as_advanced(SUBQUAD_GNU_LINKER)
  set(linker_for_objects ${SUBQUAD_GNU_LINKER})
endif()

# subquad_close(OBJECT TARGET [OBJECT_LIBRARY]) links one object file from
# OBJECT_LIBRARY and what it needs of subquad_optimized_TARGET; its only public
# symbol is subquad_target_TARGET. So no function of one target, nor a copy of a
# library's function (Eigen's, the standard library's) that was compiled for it,
# can ever be called by code for another target: each has its own.
function(subquad_close object target)
  set(first "")
  if(ARGN)
    set(first $<TARGET_OBJECTS:${ARGN}>)
  endif()
  add_custom_command(OUTPUT ${object} VERBATIM COMMAND_EXPAND_LISTS
    COMMAND ${linker_for_objects} -r --force-group-allocation -u subquad_target_${target}
      -o ${object}.all ${first} $<TARGET_FILE:subquad_optimized_${target}>
    COMMAND ${CMAKE_OBJCOPY} --keep-global-symbol=subquad_target_${target} ${object}.all ${object}
    COMMAND ${CMAKE_COMMAND} -E rm ${object}.all
    DEPENDS subquad_optimized_${target} ${first})
endfunction()

# Files that are compiled once for all targets: the choice of the target,
# threads, the list of all arrays.
set(optimized_once targets.cc base/buffer.cc base/copy_bandwidth.cc base/thread_pool.cc)
list(TRANSFORM optimized_once PREPEND ${PROJECT_SOURCE_DIR}/optimized/)
file(GLOB_RECURSE optimized_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/optimized/*.cc)
list(REMOVE_ITEM optimized_sources ${optimized_once})
if(NOT SUBQUAD_FFTW)  # their functions are null then (base/fftw_programs.h)
  set(with_fftw toeplitz/fft_circulant.cc toeplitz/fft_1d.cc toeplitz/fft_2d.cc kernelized/fft_at_once.cc)
  list(TRANSFORM with_fftw PREPEND ${PROJECT_SOURCE_DIR}/optimized/)
  list(REMOVE_ITEM optimized_sources ${with_fftw})
endif()

add_library(subquad_optimized STATIC ${optimized_once})
list(TRANSFORM SUBQUAD_TARGETS REPLACE "(.+)" "EACH(\\1)" OUTPUT_VARIABLE targets_text)
string(JOIN " " targets_text ${targets_text})
set_source_files_properties(${PROJECT_SOURCE_DIR}/optimized/targets.cc PROPERTIES
  COMPILE_DEFINITIONS "SUBQUAD_TARGETS=${targets_text}")
target_link_libraries(subquad_optimized
  PUBLIC subquad_reference subquad_fftw Threads::Threads)
foreach(target ${SUBQUAD_TARGETS})
  # subquad_optimized_TARGET has the same files before they are closed, for
  # tests of the parts.
  add_library(subquad_optimized_${target} STATIC ${optimized_sources})
  target_compile_options(subquad_optimized_${target} PRIVATE ${optimized_flags})
  target_link_libraries(subquad_optimized_${target} PRIVATE subquad_for_${target}
    PUBLIC subquad_reference subquad_fftw Threads::Threads)
  set(object ${PROJECT_BINARY_DIR}/subquad_target_${target}.o)
  subquad_close(${object} ${target})
  add_library(subquad_target_${target} STATIC ${object})
  set_target_properties(subquad_target_${target} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(subquad_target_${target} PUBLIC subquad_optimized)
  target_link_libraries(subquad_optimized PUBLIC subquad_target_${target})
endforeach()
