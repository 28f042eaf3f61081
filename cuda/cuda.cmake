# The device: cuda/ compiled by nvcc if it is available, otherwise a stub that
# reports no device. `device_library` is the library that programs link; tests/
# has a third one, cuda/ compiled for a device that the host emulates.
file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cuda/*.cu)

set(device_library subquad_no_device)
set(cuda_text "off (SUBQUAD_CUDA=OFF)")
if(NOT SUBQUAD_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      # Machine code for Ampere and Hopper, PTX for later architectures.
      set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
    endif()
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    # cuFFT and cuBLAS are loaded at their first call.
    add_library(subquad_cuda STATIC ${cuda_sources} cuda/base/libraries.cc)
    set_source_files_properties(cuda/base/libraries.cc PROPERTIES COMPILE_DEFINITIONS
      SUBQUAD_CUDA_LIBRARIES="${CUDAToolkit_LIBRARY_DIR}")
    # A global CMAKE_CXX_STANDARD does not work with nvcc 13 in CMake 3.25.
    target_compile_options(subquad_cuda PRIVATE
      $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20 -O3 --expt-relaxed-constexpr
        -Werror=all-warnings -Xcompiler=-Wall,-Wno-restrict,-Werror>)
    target_link_libraries(subquad_cuda PUBLIC subquad_reference
      PRIVATE CUDA::cudart_static ${CMAKE_DL_LIBS})
    target_include_directories(subquad_cuda PRIVATE ${PROJECT_SOURCE_DIR})
    set(device_library subquad_cuda)
    set(cuda_text "nvcc ${CMAKE_CUDA_COMPILER_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}")
  elseif(SUBQUAD_CUDA STREQUAL "ON")
    message(FATAL_ERROR "SUBQUAD_CUDA is ON and no nvcc was found")
  else()
    set(cuda_text "off (nvcc not found)")
  endif()
endif()
if(device_library STREQUAL "subquad_no_device")
  add_library(subquad_no_device STATIC cuda/no_device.cc)
  target_link_libraries(subquad_no_device PUBLIC subquad_reference)
endif()
message(STATUS "CUDA: ${cuda_text}")
