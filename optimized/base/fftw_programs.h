// The `prepare` functions of the implementations that use FFTW, each in a file
// of its own. A build without FFTW contains none of these files, and the
// functions are null there.
#pragma once

#include "optimized/base/prepare.h"

namespace subquad {

#ifdef SUBQUAD_FFTW
PrepareProgram PrepareFft1d, PrepareFft2d, PrepareFftKernelized;
#else
inline constexpr PrepareProgram *PrepareFft1d = nullptr,
                                *PrepareFft2d = nullptr,
                                *PrepareFftKernelized = nullptr;
#endif

}  // namespace subquad
