// A case on which an implementation fails: made as small as it can be, and
// written as a case folder that `subquad check` finds to fail too.
#pragma once

#include <filesystem>
#include <functional>

#include "harness/cases/case.h"
#include "harness/judging/verdict.h"

namespace subquad {

// One implementation on one generated case. Skipped, with the reason, where the
// reference is undefined.
Verdict VerifyCase(const Implementation& implementation, const Case& one,
                   int threads);

// The last of a chain of simpler cases (SimplerCases) for each of which
// `fails` is true. Ends early where `stop` is true.
Case Shrink(const Case& one, const std::function<bool(const Case&)>& fails,
            const std::function<bool()>& stop);

// Writes the case with the reference's answer, then checks the folder with this
// implementation. Returns the verdict on the folder.
Verdict WriteFailingCase(const Implementation& implementation, const Case& one,
                         const std::filesystem::path& folder,
                         const std::string& source);

}  // namespace subquad
