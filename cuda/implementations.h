// The tables of the GPU implementations, one per operator. Each stands at the
// end of the operator's file.
#pragma once

#include <vector>

#include "reference/implementation.h"

namespace subquad {

std::vector<Implementation> Toeplitz1dCudaImplementations();

}  // namespace subquad
