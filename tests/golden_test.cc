// Golden cases, computed by an independent program: every implementation passes
// those of its operator, and a wrong value in them is found.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/case_files.h"
#include "tests/on_target.h"
#include "tests/places.h"

namespace subquad {
namespace {

class GoldenOn : public testing::TestWithParam<std::string> {};

TEST_P(GoldenOn, EveryImplementationPassesEveryCaseOfItsOperator) {
  const ChosenTarget target(GetParam());
  std::map<std::string, std::set<std::string>> missing;
  std::map<std::pair<const Implementation*, Scalar>, int> passed;
  for (const fs::path& path : GoldenFolders()) {
    const std::string id = OperatorOf(path);
    if (!IsRegistered(id)) {
      missing[id].insert(path.filename());
      continue;
    }
    const CaseFolder folder = ReadCaseFolder(path);
    int lines = 0;
    CheckCaseFolder(folder, [&](const CheckLine& line) {
      ++lines;
      const bool skipped = line.verdict.outcome == Outcome::kSkipped;
      EXPECT_TRUE(line.verdict.passed() || skipped)
          << folder.name << " " << line.implementation << " "
          << Info(line.scalar).name << ": " << line.verdict.reason;
      EXPECT_EQ(skipped, line.verdict.reason != "" && !line.verdict.passed());
      for (const Implementation* implementation : ImplementationsOf(*folder.op))
        if (implementation->id == line.implementation &&
            ToString(implementation->backend) == line.backend &&
            line.verdict.passed())
          ++passed[{implementation, line.scalar}];
    });
    EXPECT_GE(lines, 2) << folder.name;
  }
  for (const Implementation& implementation : Implementations())
    for (Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64})
      if (implementation.backend == Backend::kCpu &&
          std::ranges::count(implementation.scalars, scalar)) {
        EXPECT_GT((passed[{&implementation, scalar}]), 0)
            << "no golden case reaches " << implementation.op << " "
            << implementation.id;
      }
  size_t cases = 0;
  for (const auto& [id, names] : missing) {
    cases += names.size();
    fmt::print("no operator {} yet: {} cases not checked: {}\n", id,
               names.size(), fmt::join(names, " "));
  }
  if (cases > 0) fmt::print("{} golden cases not checked\n", cases);
  testing::Test::RecordProperty("golden_cases_without_operator",
                                static_cast<int>(cases));
}

INSTANTIATE_TEST_SUITE_P(Targets, GoldenOn, testing::ValuesIn(NamesOfTargets()),
                         [](const auto& test) { return test.param; });

TEST(Golden, EveryOperatorHasACase) {
  std::set<std::string> covered;
  for (const fs::path& path : GoldenFolders()) covered.insert(OperatorOf(path));
  for (const Operator* op : Operators())
    EXPECT_TRUE(covered.contains(std::string(op->description().id)))
        << op->description().id;
}

// A wrong value in `expected` must be found by every implementation.
TEST(Golden, AWrongExpectedNumberFailsEverywhere) {
  CaseFolder folder =
      ReadCaseFolder(fs::path(kGoldenFolder) / "toeplitz_1d-square");
  folder.expected[0].values[3] *= 1.001;
  int judged = 0;
  CheckCaseFolder(folder, [&](const CheckLine& line) {
    if (NoDevice(line)) return;
    ++judged;
    EXPECT_EQ(line.verdict.outcome, Outcome::kFailed)
        << line.implementation << " " << Info(line.scalar).name;
  });
  EXPECT_GE(judged, 4);  // dense and fft_columns in two scalar types
}

}  // namespace
}  // namespace subquad
