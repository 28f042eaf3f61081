// Where and with what a result was made.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace subquad {

// What a result file records of this machine. Measures the
// machine's floors (copy bandwidth, multiply-adds), which takes a second.
nlohmann::ordered_json DescribeEnvironment(int threads);

int64_t MemoryBytes();  // of the machine, or of the group it is confined to
int64_t AvailableMemoryBytes();
std::string CurrentTime();  // ISO 8601, UTC

}  // namespace subquad
