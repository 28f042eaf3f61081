// Shrinks a case on which an implementation fails, and writes it as a case
// folder on which `subquad check` fails too.
#pragma once

#include <filesystem>
#include <functional>

#include "harness/cases/case.h"
#include "harness/judging/verdict.h"

namespace subquad {

// Judges one implementation on one generated case. The verdict is skipped, with
// a reason, if the reference is undefined.
Verdict VerifyCase(const Implementation& implementation, const Case& test_case,
                   int threads);

// Follows a chain of simpler cases (SimplerCases) as long as `fails` is true
// and returns the last one. Ends early if `stop` returns true.
Case Shrink(const Case& test_case,
            const std::function<bool(const Case&)>& fails,
            const std::function<bool()>& stop);

// Writes the case with the reference's answer, then checks the folder with this
// implementation. Returns the verdict on the folder.
Verdict WriteFailingCase(const Implementation& implementation,
                         const Case& test_case,
                         const std::filesystem::path& folder,
                         const std::string& source);

}  // namespace subquad
