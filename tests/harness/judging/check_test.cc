// Case folders: every kind of malformed folder is refused with one line that
// names the case and the problem, and valid folders are accepted.
#include "harness/judging/check.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <limits>

#include "harness/machine/memory_counter.h"
#include "tests/harness/judging/malformed_cases.h"
#include "tests/places.h"

namespace subquad {
namespace {

class MalformedCase : public testing::TestWithParam<Malformed> {
 protected:
  MalformedCase() {
    std::string name =
        (fs::temp_directory_path() / "check_test.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    root_ = name;
  }
  ~MalformedCase() override { fs::remove_all(root_); }

  // Copies the valid case, to be corrupted.
  Spoilt Copy(const std::string& base) const {
    const fs::path from = fs::path(kGoldenFolder) / base;
    Spoilt spoilt{root_ / "spoilt", Json::parse(Slurp(from / "case.json"))};
    fs::copy(from, spoilt.folder, fs::copy_options::recursive);
    return spoilt;
  }

  fs::path root_;
};

// The case is named by the path that was given.
void ExpectOneGoodLine(const std::string& line, const fs::path& folder,
                       const Malformed& malformed) {
  EXPECT_NE(line.find("case " + folder.string() + ": "), std::string::npos)
      << line;
  for (const std::string& word : malformed.words)
    EXPECT_NE(line.find(word), std::string::npos)
        << "no '" << word << "' in " << line;
  EXPECT_LT(line.size(), 2100u);
  for (const char c : line) EXPECT_FALSE(static_cast<unsigned char>(c) < 0x20);
}

TEST_P(MalformedCase, IsRefusedInOneLineThatNamesIt) {
  const Malformed& malformed = GetParam();
  Spoilt spoilt = Copy(malformed.base);
  ASSERT_NO_THROW(ReadCaseFolder(spoilt.folder));
  malformed.spoil(spoilt);
  uintmax_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root_))
    if (!entry.is_symlink() && entry.is_regular_file())
      bytes += entry.file_size();
  std::string message;
  const PeakOf peak;
  try {
    ReadCaseFolder(spoilt.folder);
  } catch (const InvalidInput& problem) {
    message = problem.what();
  }
  EXPECT_LE(peak.bytes(), static_cast<int64_t>(40 * bytes + (1 << 20)));
  ASSERT_NE(message, "") << "the case was taken";
  ExpectOneGoodLine(message, spoilt.folder, malformed);

  // The program reports it the same way: exit status 2, exactly one line.
  const std::string errors = (root_ / "stderr").string();
  const std::string command =
      fmt::format("'{}' check '{}' > /dev/null 2> '{}'", kProgramFile,
                  spoilt.folder.string(), errors);
  const int status = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(status)) << "it crashed";
  EXPECT_EQ(WEXITSTATUS(status), 2);
  const std::string text = Slurp(errors);
  EXPECT_EQ(std::ranges::count(text, '\n'), 1) << text;
  EXPECT_TRUE(text.ends_with('\n'));
  ExpectOneGoodLine(text.substr(0, text.size() - 1), spoilt.folder, malformed);
}

INSTANTIATE_TEST_SUITE_P(Check, MalformedCase,
                         testing::ValuesIn(AllMalformed()),
                         [](const testing::TestParamInfo<Malformed>& test) {
                           return test.param.name;
                         });

class CaseFolderTest : public MalformedCase {};

// Parameters whose sizes no file backs: for any values, the answer is one line
// or a verdict, and the memory is limited to what the files account for.
TEST_F(CaseFolderTest, HugeParametersAreRefusedOrHarmless) {
  for (const fs::path& golden : GoldenFolders()) {
    if (!IsRegistered(OperatorOf(golden))) continue;
    const Json json = Json::parse(Slurp(golden / "case.json"));
    for (const auto& [name, value] : json.at("params").items()) {
      if (!value.is_number_integer()) continue;
      for (int64_t huge : {int64_t{1} << 20, kMaxInteger}) {
        fs::remove_all(root_ / "spoilt");
        Spoilt spoilt = Copy(golden.string());
        spoilt.json["params"][name] = huge;
        spoilt.Save();
        const PeakOf peak;
        try {
          CheckCaseFolder(ReadCaseFolder(spoilt.folder),
                          [](const CheckLine&) {});
        } catch (const InvalidInput&) {
        }
        EXPECT_LE(peak.bytes(), 256 << 20)
            << golden.filename() << " " << name << "=" << huge;
      }
    }
  }
}

TEST_F(CaseFolderTest, MinusInfinityIsAcceptedInBiasesOnly) {
  for (const fs::path& golden : GoldenFolders()) {
    if (!IsRegistered(OperatorOf(golden))) continue;
    const CaseFolder good = ReadCaseFolder(golden);
    for (const TensorRule& rule : good.problem.inputs) {
      fs::remove_all(root_ / "spoilt");
      Spoilt spoilt = Copy(golden.string());
      spoilt.SetNumber(spoilt.json["inputs"][rule.name].get<std::string>(), 0,
                       -std::numeric_limits<double>::infinity());
      const bool allowed = rule.name == "pair_bias" ||
                           (rule.name == "bias" &&
                            (OperatorOf(golden) == "softmax_attention" ||
                             OperatorOf(golden) == "sparse_attention" ||
                             OperatorOf(golden) == "kernelized_rpe_attention"));
      EXPECT_EQ(rule.may_be_minus_infinity, allowed) << rule.name;
      if (allowed)
        EXPECT_NO_THROW(ReadCaseFolder(spoilt.folder)) << golden;
      else
        EXPECT_THROW(ReadCaseFolder(spoilt.folder), InvalidInput) << golden;
    }
  }
}

TEST_F(CaseFolderTest, NamesAndLinksInsideAreAccepted) {
  Spoilt spoilt = Copy("toeplitz_1d-square");
  fs::create_directory(spoilt.folder / "data");
  fs::rename(spoilt.folder / "values.npy", spoilt.folder / "data/v.npy");
  fs::create_symlink("data/v.npy", spoilt.folder / "values.npy");
  spoilt.json["inputs"]["weights"] = "./weights.npy";
  spoilt.Save();
  EXPECT_NO_THROW(ReadCaseFolder(spoilt.folder));
  fs::create_directory_symlink(spoilt.folder, root_ / "link");
  EXPECT_EQ(ReadCaseFolder(root_ / "link").name, "link");
  EXPECT_EQ(ReadCaseFolder(spoilt.folder / "").name, "spoilt");
  EXPECT_EQ(ReadCaseFolder(spoilt.folder / ".").name, "spoilt");
  EXPECT_EQ(ReadCaseFolder(spoilt.folder / "data/..").name, "spoilt");
}

// Float32 files are valid cases, judged with the tolerance of float32 programs.
TEST_F(CaseFolderTest, Float32ExpectedHasItsTolerance) {
  Spoilt spoilt = Copy("toeplitz_1d-square");
  const NpyArray out = ReadNpy(spoilt.folder / "out.npy");
  WriteNpy(spoilt.folder / "out.npy", out.shape, out.values, true);
  int judged = 0;
  CheckCaseFolder(ReadCaseFolder(spoilt.folder), [&](const CheckLine& line) {
    if (NoDevice(line)) return;
    ++judged;
    EXPECT_TRUE(line.verdict.passed())
        << line.implementation << " " << Info(line.scalar).name << " "
        << line.verdict.reason;
  });
  EXPECT_GE(judged, 6);
}

}  // namespace
}  // namespace subquad
