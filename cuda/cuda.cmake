# The device: cuda/ compiled by nvcc where there is one, and otherwise a device
# that is not there. `device_library` is what programs link; tests/ has a third
# one, cuda/ compiled for a device that the host emulates. Of optimized/ it takes
# bounds of errors that hold for both.
set(cuda_sources
  cuda/circulant_product.cu
  cuda/clipped_position.cu
  cuda/clipped_rpe_product.cu
  cuda/convert.cu
  cuda/device.cu
  cuda/device_state.cu
  cuda/direct_rows.cu
  cuda/edge_sums.cu
  cuda/fastrpb_attention.cu
  cuda/features.cu
  cuda/fft.cu
  cuda/gemm.cu
  cuda/image_sums.cu
  cuda/kernelized.cu
  cuda/kernelized_clipped_rpe_attention.cu
  cuda/kernelized_dense.cu
  cuda/kernelized_fft.cu
  cuda/kernelized_rpe_attention.cu
  cuda/kernelized_tiled.cu
  cuda/linear_attention.cu
  cuda/linear_state.cu
  cuda/linformer_attention.cu
  cuda/memory.cu
  cuda/memory_compressed_attention.cu
  cuda/noisy_tokens.cu
  cuda/position_attention.cu
  cuda/position_terms.cu
  cuda/prepared.cu
  cuda/projection.cu
  cuda/score_rows.cu
  cuda/softmax_attention.cu
  cuda/softmax_tiles.cu
  cuda/sparse_attention.cu
  cuda/sparse_mask.cu
  cuda/sparse_plan.cu
  cuda/stochastic_position_attention.cu
  cuda/toeplitz_1d.cu
  cuda/toeplitz_2d.cu
  cuda/toeplitz_2d_xy.cu
  cuda/toeplitz_product.cu
  cuda/transformer_xl_attention.cu)

set(device_library subquad_no_device)
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
    add_library(subquad_cuda STATIC ${cuda_sources})
    # A global CMAKE_CXX_STANDARD and nvcc 13 do not get along in CMake 3.25.
    target_compile_options(subquad_cuda PRIVATE
      $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20 -O3 --expt-relaxed-constexpr
        -Werror=all-warnings -Xcompiler=-Wall,-Wno-restrict,-Werror>)
    target_link_libraries(subquad_cuda PUBLIC subquad_reference
      PRIVATE CUDA::cudart_static CUDA::cufft CUDA::cublas ${CMAKE_DL_LIBS}
      $<LINK_ONLY:subquad_optimized>)
    target_include_directories(subquad_cuda PRIVATE ${PROJECT_SOURCE_DIR})
    set(device_library subquad_cuda)
    set(cuda_text "nvcc ${CMAKE_CUDA_COMPILER_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}")
  elseif(SUBQUAD_CUDA STREQUAL "ON")
    message(FATAL_ERROR "SUBQUAD_CUDA is ON and no nvcc was found")
  else()
    set(cuda_text "not found; everything else is built")
  endif()
endif()
if(device_library STREQUAL "subquad_no_device")
  add_library(subquad_no_device STATIC cuda/no_device.cc)
  target_link_libraries(subquad_no_device PUBLIC subquad_reference)
endif()
message(STATUS "CUDA: ${cuda_text}")
