// For tests of an operator's own properties: tensors by name, run through any
// implementation, and the reference's answer beside it.
#pragma once

#include "harness/papers/claims/operator_run.h"
