#include "harness/papers/frame/self_test.h"

#include "harness/papers/frame/plain.h"
#include "harness/registry/registry.h"

namespace subquad {

OperatorRun TriedAttention(const std::string& op) {
  OperatorRun run(op);
  run.Give("q", {kTriedN, kTriedD}, NormalNumbers(kTriedN * kTriedD, 1))
      .Give("k", {kTriedN, kTriedD}, NormalNumbers(kTriedN * kTriedD, 2))
      .Give("v", {kTriedN, kTriedE}, NormalNumbers(kTriedN * kTriedE, 3));
  return run;
}

void AddPrograms(Finding& finding, const OperatorRun& run,
                 const std::string& what,
                 const std::vector<std::string>& programs) {
  const Numbers exact = run.Definition();
  const double largest = LargestAbsolute(exact);
  double worst = programs.empty() ? NAN : 0;
  std::string names;
  const std::string op(run.Resolve(Scalar::kFloat64).op->description().id);
  for (const std::string& program : programs) {
    if (!WhyMissing({op}, program).empty()) continue;
    worst =
        LargestOf(worst, LargestDifference(run.Run(program), exact) / largest);
    names += (names.empty() ? "`" : ", `") + program + "`";
  }
  const Measured gap = finding.Measure("difference, " + what, worst);
  finding.Add(
      gap <= kTriedRounding && largest > 0,
      fmt::format("{}: {} within {} of the definition", what, names, gap));
}

}  // namespace subquad
