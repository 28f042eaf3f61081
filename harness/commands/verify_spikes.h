// Runs `subquad verify --spikes`, the impulse test (harness/judging/spikes.h).
#pragma once

#include <cstdint>
#include <vector>

#include "harness/registry/filters.h"

namespace subquad {

// Runs the test and returns an ExitStatus.
int VerifySpikes(const Filters& filters, const std::vector<int64_t>& sizes,
                 int threads);

}  // namespace subquad
