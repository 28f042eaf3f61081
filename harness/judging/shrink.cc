#include "harness/judging/shrink.h"

#include <fmt/format.h>

#include "harness/cases/generate.h"
#include "harness/cases/random_case.h"
#include "harness/cases/write_case_folder.h"
#include "harness/judging/check.h"
#include "harness/judging/trial.h"

namespace subquad {

Verdict VerifyCase(const Implementation& implementation, const Case& test_case,
                   int threads) {
  try {
    Problem problem = ProblemOf(test_case);
    Inputs inputs = GenerateInputs(test_case, problem);
    Trial trial(std::move(problem), std::move(inputs), test_case.seed);
    return Verify(implementation, trial, {.threads = threads});
  } catch (const InvalidInput& undefined) {
    return Verdict::Skipped(
        fmt::format("the reference is undefined: {}", undefined.what()));
  }
}

Case Shrink(const Case& test_case,
            const std::function<bool(const Case&)>& fails,
            const std::function<bool()>& stop) {
  // Each step makes a number smaller or removes an option, so that the loop
  // ends. The limit is for failures that come and go.
  constexpr int kMostTries = 2000;
  Case smallest = test_case;
  int tries = 0;
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (const Case& simpler : SimplerCases(smallest)) {
      if (stop() || ++tries > kMostTries) return smallest;
      if (!fails(simpler)) continue;
      smallest = simpler;
      smaller = true;
      break;
    }
  }
  return smallest;
}

Verdict WriteFailingCase(const Implementation& implementation,
                         const Case& test_case,
                         const std::filesystem::path& folder,
                         const std::string& source) {
  const Problem problem = ProblemOf(test_case);
  const Inputs inputs = GenerateInputs(test_case, problem);
  const Answer answer = ComputeAnswer(problem, inputs, test_case.seed);
  std::vector<ExpectedTensor> expected;
  for (size_t o = 0; o < answer.outputs.size(); ++o) {
    const OutputAnswer& from = answer.outputs[o];
    if (!from.selection.all) continue;  // only some rows are known
    // The rows are in order, head by head.
    expected.push_back({from.name,
                        problem.OutputShape(o),
                        {from.value.begin(), from.value.end()},
                        false});
  }
  WriteCaseFolder(folder, problem, inputs, expected, source);
  Verdict verdict = Verdict::Skipped("not checked");
  CheckCaseFolder(
      ReadCaseFolder(folder),
      [&](const CheckLine& line) { verdict = line.verdict; },
      {.implementations = {&implementation},
       .wanted = [&](const Implementation&,
                     Scalar scalar) { return scalar == test_case.scalar; },
       .reference = false});
  return verdict;
}

}  // namespace subquad
