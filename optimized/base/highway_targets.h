// The instruction sets that kernels are compiled for; before
// hwy/foreach_target.h.
#pragma once

// Vectors that live in structures and arrays need a size known to the compiler,
// so the scalable ones are left out; SSSE3 and AVX3_DL would give the code of
// SSE4 and AVX3 again.
// SUBQUAD_DISABLED_TARGETS leaves out more, so that what a processor without
// them computes can be tested on one that has them:
//   -DCMAKE_CXX_FLAGS=-DSUBQUAD_DISABLED_TARGETS=HWY_AVX3
#ifndef SUBQUAD_DISABLED_TARGETS
#define SUBQUAD_DISABLED_TARGETS 0
#endif
#define HWY_DISABLED_TARGETS                                               \
  (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3 | \
   HWY_AVX3_DL | SUBQUAD_DISABLED_TARGETS)
