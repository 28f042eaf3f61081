// Random cases: the same seed draws the same cases, and a mistake that is
// planted in an implementation is found, shrunk and written as a case.
#include "harness/cases/random_case.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <set>

#include "harness/judging/check.h"
#include "harness/judging/comparison.h"
#include "harness/judging/operator_run.h"
#include "harness/judging/shrink.h"
#include "harness/registry/registry.h"

namespace subquad {
namespace {

namespace fs = std::filesystem;

RandomCases EveryCase(uint64_t seed) {
  return {Operators(), {Scalar::kFloat32, Scalar::kFloat64}, {}, seed};
}

TEST(RandomCases, AreAFunctionOfSeedAndIndex) {
  int drawn = 0, other = 0;
  for (uint64_t index = 0; index < 200; ++index) {
    const auto test_case = EveryCase(7).Draw(index),
               again = EveryCase(7).Draw(index),
               another = EveryCase(8).Draw(index);
    ASSERT_EQ(test_case.has_value(), again.has_value());
    if (!test_case) continue;
    ++drawn;
    EXPECT_EQ(test_case->Id(), again->Id());
    EXPECT_EQ(MakeCase(ParseCaseId(test_case->Id())).Id(), test_case->Id());
    other += !another || test_case->Id() != another->Id();
  }
  EXPECT_GT(drawn, 100);
  EXPECT_EQ(other, drawn);
}

TEST(RandomCases, ReachEveryOperatorAndKindOfCase) {
  std::set<std::string> reached;
  for (uint64_t index = 0; index < 2000; ++index) {
    const auto test_case = EveryCase(1).Draw(index);
    if (!test_case) continue;
    reached.insert(std::string(test_case->op->description().id));
    reached.insert("input " + test_case->input);
    reached.insert("scalar " + std::string(Info(test_case->scalar).name));
    if (test_case->leading.heads > 1)
      reached.insert(test_case->leading.per_head ? "per head" : "heads");
    if (test_case->backward) reached.insert("backward");
    if (!test_case->with.empty()) reached.insert("optional inputs");
    if (test_case->omega != "gaussian") reached.insert("omega");
    if (test_case->Tokens() == 1) reached.insert("one query");
    if (test_case->Tokens() > 256) reached.insert("many queries");
  }
  for (const Operator* op : Operators())
    EXPECT_TRUE(reached.contains(std::string(op->description().id)))
        << op->description().id;
  for (const std::string& input : RandomInputs())
    EXPECT_TRUE(reached.contains("input " + input)) << input;
  for (const char* kind :
       {"scalar float32", "scalar float64", "heads", "per head", "backward",
        "optional inputs", "omega", "one query", "many queries"})
    EXPECT_TRUE(reached.contains(kind)) << kind;
}

// A correct implementation except that its last value is off by a hundredth, in
// causal problems of seven queries or more only.
class LastNumberOff : public Prepared {
 public:
  LastNumberOff(std::unique_ptr<Prepared> right, const Problem& problem,
                const Arrays& arrays)
      : right_(std::move(right)),
        off_(problem.queries >= 7 && problem.params.Flag("causal")),
        arrays_(arrays) {}

  void Run() override {
    right_->Run();
    if (!off_) return;
    const Arrays::Entry& out = arrays_.outputs.front();
    const double value = ElementAt(out.scalar, out.data, out.count - 1);
    StoreAt(out.scalar, 1.01 * value + 0.01, out.data,
            static_cast<size_t>(out.count - 1));
  }
  double Flops() const override { return right_->Flops(); }

 private:
  std::unique_ptr<Prepared> right_;
  const bool off_;
  const Arrays arrays_;
};

Implementation Planted() {
  Implementation planted = FindImplementation("toeplitz_1d", "fft_columns");
  planted.id = "planted";
  planted.prepare = [right = planted.prepare](
                        const Problem& problem, const Arrays& arrays,
                        Layout& layout) -> std::unique_ptr<Prepared> {
    return std::make_unique<LastNumberOff>(right(problem, arrays, layout),
                                           problem, arrays);
  };
  return planted;
}

bool Fails(const Implementation& implementation, const Case& test_case) {
  return VerifyCase(implementation, test_case, 1).outcome == Outcome::kFailed;
}

TEST(RandomCases, FindShrinkAndWriteAPlantedMistake) {
  const Implementation planted = Planted();
  const Implementation& right =
      FindImplementation("toeplitz_1d", "fft_columns");
  RandomCases cases = EveryCase(3);
  cases.operators = {&FindOperator("toeplitz_1d")};
  std::optional<Case> failing;
  for (uint64_t index = 0; index < 200 && !failing; ++index) {
    failing = cases.Draw(index);
    if (failing && !Fails(planted, *failing)) failing.reset();
  }
  ASSERT_TRUE(failing) << "200 cases do not find it";
  ASSERT_FALSE(Fails(right, *failing));

  const Case smallest = Shrink(
      *failing,
      [&](const Case& test_case) { return Fails(planted, test_case); },
      [] { return false; });
  EXPECT_TRUE(Fails(planted, smallest)) << smallest.Id();
  EXPECT_EQ(smallest.Tokens(), 7) << smallest.Id();
  EXPECT_TRUE(smallest.params.Flag("causal")) << smallest.Id();
  EXPECT_EQ(smallest.sizes.at("e"), 1) << smallest.Id();
  EXPECT_EQ(smallest.leading.heads, 0) << smallest.Id();
  EXPECT_EQ(smallest.input, "normal") << smallest.Id();
  for (const Case& simpler : SimplerCases(smallest))
    EXPECT_FALSE(Fails(planted, simpler)) << simpler.Id();

  std::string name =
      (fs::temp_directory_path() / "random_case.XXXXXX").string();
  ASSERT_NE(::mkdtemp(name.data()), nullptr);
  const fs::path folder = fs::path(name) / "failures" / "case";
  EXPECT_EQ(WriteFailingCase(planted, smallest, folder, "a test").outcome,
            Outcome::kFailed);
  // The folder is otherwise valid: correct implementations pass.
  int passed = 0;
  CheckCaseFolder(ReadCaseFolder(folder), [&](const CheckLine& line) {
    passed += line.verdict.passed();
    EXPECT_NE(line.verdict.outcome, Outcome::kFailed) << line.implementation;
  });
  EXPECT_GE(passed, 5);
  // An existing folder is not overwritten.
  EXPECT_THROW(WriteFailingCase(planted, smallest, folder, "a test"),
               InvalidInput);
  fs::remove_all(name);
}

// Cases that were drawn once and failed stay repaired.
TEST(RandomCases, PastFailuresStayRepaired) {
  for (const char* id :
       {// Transforms of 16 points at least, held to a bound for two.
        "toeplitz_1d:n_q=1,n_k=2,e=1,heads=1,leading=values:1,causal=0,"
        "query_offset=0,backward=1,input=unit,scalar=float32,"
        "seed=5137410630152605902",
        // Values cancel in pairs: the plain program is exact by luck.
        "transformer_xl_attention:L=255,M=19,d=1,e=3,p=16,causal=0,"
        "scale=0.016288332936671653,input=opposite,scalar=float64,"
        "seed=5137410630152605902",
        "softmax_attention:n=1000,d=1,e=17,causal=0,scale=0.001,"
        "input=opposite,scalar=float32,seed=1",
        "linear_attention:n_q=481,n_k=341,d=14,e=3,p=5,feature_map=trf,"
        "causal=0,scale=0.0009765625,input=opposite,omega=orthogonal,"
        "scalar=float32,seed=1020625277644986862",
        // The bound of a sum over a wide image used to ignore the length of its
        // partial sums.
        "toeplitz_2d_xy:e=6,height=1,width=1023,input=repeated,"
        "scalar=float64,seed=2624460191315320151",
        // Transforms of two points, whose product of spectra counts.
        "toeplitz_1d:n_q=2,n_k=1,e=65,heads=2,per_head=1,leading=values:1,"
        "causal=1,key_lengths=1,backward=1,scalar=float32,seed=7",
        // The plain program added up gradients in parts of 64 rows, which other
        // programs need not do, and errors add up one way.
        "toeplitz_1d:n_q=463,n_k=256,e=2,causal=0,key_lengths=99,backward=1,"
        "input=repeated,scalar=float64,seed=304752581295541045",
        "toeplitz_1d:n_q=446,n_k=2,e=9,causal=1,backward=1,input=repeated,"
        "scalar=float32,seed=7",
        "toeplitz_1d:n_q=652,n_k=434,e=27,causal=0,backward=1,input=repeated,"
        "scalar=float64,seed=7",
        "toeplitz_1d:n=214,e=2,batch=3,heads=2,leading=values:3x2,causal=1,"
        "backward=1,input=repeated,scalar=float32,seed=7",
        "toeplitz_1d:n=362,e=3,causal=1,query_offset=128,backward=1,"
        "input=repeated,scalar=float32,seed=7",
        // The definition took biases as equal from 1e6 below the largest of all
        // packed sequences on.
        "kernelized_rpe_attention:n=48,d=16,e=19,feature_map=sikf,"
        "normalize=1,causal=0,packed_q=12+0+36+0,packed_k=6+24+0+18,"
        "input=huge,scalar=float64",
        // The steps towards an inverse diverge in the plain program too.
        "nystrom_attention:n=24,d=1,e=1,segments=12,iterations=80,scale=0.03,"
        "scalar=float64,seed=2"}) {
    const Case test_case = MakeCase(ParseCaseId(id));
    int judged = 0;
    for (const Implementation* program :
         CpuImplementations(ProblemOf(test_case))) {
      const Verdict verdict = VerifyCase(*program, test_case, 1);
      EXPECT_NE(verdict.outcome, Outcome::kFailed) << program->id << " " << id;
      judged += verdict.passed() || verdict.outcome == Outcome::kMistrusted;
    }
    EXPECT_GE(judged, 2) << id;
  }
}

TEST(RandomCases, ShrinkingStopsOnRequest) {
  const auto test_case = MakeCase(ParseCaseId("toeplitz_1d:n=64,e=8,causal=1"));
  const Case same = Shrink(
      test_case, [](const Case&) { return true; }, [] { return true; });
  EXPECT_EQ(same.Id(), test_case.Id());
  const Case least = Shrink(
      test_case, [](const Case&) { return true; }, [] { return false; });
  EXPECT_EQ(least.Id(), "toeplitz_1d:n=1,e=1,causal=0,scalar=float32,seed=1");
}

}  // namespace
}  // namespace subquad
