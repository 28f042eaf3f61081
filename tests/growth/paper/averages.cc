#include "harness/papers/averages/averages.h"

#include <cmath>

#include "harness/judging/operator_run.h"
#include "harness/papers/frame/study_numbers.h"

namespace subquad {
namespace {

OperatorRun Averaged(int64_t n, Numbers values) {
  OperatorRun run("average_attention");
  run.Give("v", {n, 1}, std::move(values));
  return run;
}

// Averages of ones are all one; with another first value none is.
Finding Constant(const Evidence& evidence) {
  Finding finding(evidence);
  constexpr int64_t kN = 40;
  Numbers ones(static_cast<size_t>(kN), 1.0), other = ones;
  other[0] = 2;
  const auto off = [](const Numbers& values) {
    double most = 0;
    for (double average : Averaged(kN, values).Definition())
      most = std::max(most, std::abs(average - 1));
    return most;
  };
  const Measured gap = finding.Measure("difference from one", off(ones)),
                 control = finding.Measure("with another value", off(other));
  finding.Add(gap <= 1e-12 && control > 0.01,
              fmt::format("averages of ones are one within {}; with another "
                          "first value they are off by up to {}",
                          gap, control));
  return finding;
}

StudyTables MeasureAverages(StudyRun& run, const Json& parameters) {
  StudyTable table{"averages",
                   {{"n", "1", "tokens"},
                    {"error", "1", "of `running`, over the largest average"}},
                   {},
                   true};
  const auto sizes = parameters.at("n").get<std::vector<int64_t>>();
  run.InTurn(static_cast<int64_t>(sizes.size()), [&](int64_t index) {
    const int64_t n = sizes[static_cast<size_t>(index)];
    const OperatorRun averages = Averaged(n, NormalNumbers(n, run.seed()));
    table.Add(
        {n, LargestDifference(averages.Run("running"), averages.Definition())});
  });
  return {table};
}

std::vector<StudyVerdict> JudgeAverages(const Json&,
                                        const StudyTables& tables) {
  const StudyTable& table = FindTable(tables, "averages");
  double worst = 0;
  for (double error : table.Numbers("error")) worst = Worst(worst, error);
  StudyVerdict verdict{"averages-running",
                       "running sums give every average of the prefixes"};
  verdict.outcome = Decide(!table.rows.empty() && worst <= 1e-12);
  verdict.numbers = fmt::format("largest difference {:.2g}", worst);
  return {verdict};
}

}  // namespace

Paper Averages() {
  Study study;
  study.name = "averages";
  study.purpose = "Running sums against the averages of all prefixes.";
  study.source = "Averages, section 2";
  study.parameters = {{"n", {16, 256, 4096}}};
  study.tiny = {{"n", {16, 64}}};
  study.measure = MeasureAverages;
  study.judge = JudgeAverages;
  return {"averages", {{"averages-constant", Constant}}, {study}};
}

}  // namespace subquad
