// Writes case folders, format case/1, which case_folder.h reads.
#pragma once

#include "harness/cases/case_folder.h"

namespace subquad {

// Creates the folder, which must not exist yet. Inputs whose values are all
// float32 numbers are written as float32; expected tensors as their is_float32
// says, with CaseFolder::expected_error. Throws InvalidInput if something does
// not fit, or the system's error if it cannot write.
void WriteCaseFolder(const std::filesystem::path& folder,
                     const Problem& problem, const Inputs& inputs,
                     const std::vector<ExpectedTensor>& expected,
                     const std::string& source, double expected_error = 0);

}  // namespace subquad
