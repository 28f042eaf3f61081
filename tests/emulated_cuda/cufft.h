// cuFFT of the emulated device, by FFTW.
#pragma once

#include "cuda_runtime.h"

using cufftComplex = float2;
using cufftHandle = int;
enum cufftResult {
  CUFFT_SUCCESS = 0,
  CUFFT_INVALID_PLAN = 1,
  CUFFT_INVALID_VALUE = 4
};
enum cufftType { CUFFT_C2C = 0x29 };
constexpr int CUFFT_FORWARD = -1, CUFFT_INVERSE = 1;

cufftResult cufftCreate(cufftHandle* plan);
cufftResult cufftDestroy(cufftHandle plan);
cufftResult cufftSetAutoAllocation(cufftHandle plan, int automatic);
cufftResult cufftMakePlanMany64(cufftHandle plan, int rank, long long* n,
                                long long* input_embed, long long input_stride,
                                long long input_distance,
                                long long* output_embed,
                                long long output_stride,
                                long long output_distance, cufftType type,
                                long long batch, size_t* area_bytes);
cufftResult cufftSetWorkArea(cufftHandle plan, void* area);
cufftResult cufftExecC2C(cufftHandle plan, cufftComplex* in, cufftComplex* out,
                         int direction);
cufftResult cufftGetVersion(int* version);
