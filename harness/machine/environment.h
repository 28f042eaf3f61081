// Describes the build and the machine that a result comes from.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace subquad {

// Returns the build as result files record it: commit, dirty, digest, compiler,
// flags and libraries.
nlohmann::ordered_json DescribeBuild();

// Returns build and machine as result files record them. Measures the machine's
// roofline (copy bandwidth, multiply-adds), which takes a second.
nlohmann::ordered_json DescribeEnvironment(int threads);

int64_t MemoryBytes();  // of the machine, or of the group it is confined to
int64_t AvailableMemoryBytes();
std::string CurrentTime();  // ISO 8601, UTC

}  // namespace subquad
