# Finds nvcc and builds cuda/. Leaves `cuda_library` empty where there is none.
set(cuda_library "")
set(cuda_text "off")
if(NOT SUBQUAD_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      # Machine code for Ampere and Hopper, PTX for what comes later.
      set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
    endif()
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    add_library(subquad_cuda STATIC
      cuda/device.cu
      cuda/toeplitz_1d.cu)
    # A global CMAKE_CXX_STANDARD and nvcc 13 do not get along in CMake 3.25.
    target_compile_options(subquad_cuda PRIVATE
      $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20 -O3 --expt-relaxed-constexpr -Xcompiler=-Wall,-Wno-restrict>)
    target_link_libraries(subquad_cuda PUBLIC subquad_reference
      PRIVATE CUDA::cudart_static CUDA::cufft CUDA::cublas)
    target_include_directories(subquad_cuda PRIVATE ${PROJECT_SOURCE_DIR})
    target_compile_definitions(subquad_cuda INTERFACE SUBQUAD_CUDA)
    set(cuda_library subquad_cuda)
    set(cuda_text "nvcc ${CMAKE_CUDA_COMPILER_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}")
  elseif(SUBQUAD_CUDA STREQUAL "ON")
    message(FATAL_ERROR "SUBQUAD_CUDA is ON and no nvcc was found")
  else()
    set(cuda_text "not found; everything else is built")
  endif()
endif()
message(STATUS "CUDA: ${cuda_text}")
