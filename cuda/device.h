// What the harness may know of a GPU without knowing CUDA.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reference/implementation.h"

namespace subquad {

struct DeviceInfo {
  bool present = false;
  std::string why_not;  // in words, when there is none
  std::string name;
  std::string driver, runtime, cufft;  // versions
  int64_t memory_bytes = 0;
  int multiprocessors = 0;
  int compute_major = 0, compute_minor = 0;
};

// The first device; asked for once.
const DeviceInfo& Device();

// All implementations of cuda/.
std::vector<Implementation> CudaImplementations();

}  // namespace subquad
