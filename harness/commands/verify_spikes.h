// `subquad verify --spikes`: the spike probe (harness/judging/spikes.h).
#pragma once

#include <cstdint>
#include <vector>

#include "harness/registry/filters.h"

namespace subquad {

// Returns an ExitStatus.
int VerifySpikes(const Filters& filters, const std::vector<int64_t>& sizes,
                 int threads);

}  // namespace subquad
