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

// A failure of gate 2 alone that does not come back with other numbers. Gate 2
// compares the largest of two programs' rounding errors; in a small problem the
// plain program's is now and then next to nothing by luck, so that among a
// hundred thousand verdicts on right answers a few fail. A mistake fails with
// other numbers too.
bool FailedByLuck(const Implementation& implementation, const Case& one,
                  const Verdict& verdict, int threads);

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
