// Writes case folders, format case/1, which case_folder.h reads.
#pragma once

#include "harness/cases/case_folder.h"

namespace subquad {

// Makes the folder, which must not exist. Inputs whose numbers all are float32
// ones are written as such; expected tensors as they say, and how far their
// numbers may be off besides (CaseFolder::expected_error). Throws InvalidInput
// where something does not fit, or the system's error where it cannot write.
void WriteCaseFolder(const std::filesystem::path& folder,
                     const Problem& problem, const Inputs& inputs,
                     const std::vector<ExpectedTensor>& expected,
                     const std::string& source, double expected_error = 0);

}  // namespace subquad
