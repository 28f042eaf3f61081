#include "harness/registry/registry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "harness/cases/verification.h"
#include "harness/registry/filters.h"
#include "tests/places.h"

namespace subquad {
namespace {

// An unregistered definition would be neither checked nor measured.
TEST(Registry, EveryDefinitionIsRegistered) {
  namespace fs = std::filesystem;
  int count = 0;
  for (const auto& entry :
       fs::directory_iterator(fs::path(kSourceFolder) / "reference")) {
    if (entry.path().extension() != ".cc") continue;
    std::ifstream stream(entry.path());
    std::stringstream text;
    text << stream.rdbuf();
    if (text.str().find("description() const override") == std::string::npos)
      continue;
    ++count;
    const std::string id = entry.path().stem();
    EXPECT_NO_THROW(FindOperator(id)) << entry.path();
    // GPU implementations may follow later.
    const std::string file = "optimized/" + id + ".cc";
    EXPECT_TRUE(fs::exists(fs::path(kSourceFolder) / file)) << file;
  }
  EXPECT_EQ(count, static_cast<int>(Operators().size()));
}

TEST(Registry, NamesAreUniqueAndFieldsComplete) {
  std::vector<std::string> ids;
  for (const Implementation& implementation : Implementations()) {
    ids.push_back(implementation.op + "/" + implementation.id + "/" +
                  std::string(ToString(implementation.backend)));
    EXPECT_NO_THROW(FindOperator(implementation.op)) << ids.back();
    EXPECT_FALSE(implementation.what.empty() || implementation.source.empty() ||
                 implementation.time.text.empty() ||
                 implementation.memory.text.empty())
        << ids.back();
    for (const std::string& name :
         {implementation.time.order, implementation.memory.order})
      EXPECT_TRUE(std::regex_match(
          name, std::regex(R"(|1|n|n log n|n\^[0-9]+(\.[0-9]+)?)")))
          << ids.back() << " " << name;
    EXPECT_FALSE(implementation.scalars.empty()) << ids.back();
    EXPECT_TRUE(implementation.prepare) << ids.back();
  }
  std::ranges::sort(ids);
  EXPECT_EQ(std::ranges::adjacent_find(ids), ids.end());
}

// Returns the message of the exception for this implementation, or "found".
std::string Finding(const std::string& op, const std::string& id) {
  try {
    FindImplementation(op, id);
    return "found";
  } catch (const InvalidInput& problem) {
    return problem.what();
  }
}

TEST(Registry, ABuildWithoutFftwNamesWhatItLacks) {
  const std::vector<std::pair<std::string, std::string>> users = {
      {"toeplitz_1d", "fft"},
      {"toeplitz_2d", "fft2"},
      {"kernelized_rpe_attention", "fft"}};
#ifdef SUBQUAD_FFTW
  EXPECT_TRUE(MissingImplementations().empty());
  for (const auto& [op, id] : users) EXPECT_EQ(Finding(op, id), "found");
#else
  EXPECT_EQ(MissingImplementations().size(), users.size());
  for (const auto& [op, id] : users) {
    const std::string message = Finding(op, id);
    EXPECT_EQ(message.find(op + "/" + id + " needs FFTW"), 0u) << message;
    EXPECT_NE(message.find("-DSUBQUAD_FFTW=ON"), std::string::npos);
    Filters filters;
    filters.operators = {op};
    filters.implementations = {id};
    EXPECT_THROW(filters.Check(), InvalidInput);
  }
#endif
  EXPECT_EQ(Finding("toeplitz_2d", "fft_sequence"), "found");
  EXPECT_EQ(Finding("gmlp_mixing", "fft"), "found");  // uses our own transform
}

// Offset 0 is an entry of every tensor by offset, wherever its axis begins; an
// axis by indices includes both sides, even with different numbers of queries
// and keys.
TEST(Registry, OffsetsBeginWithinTheirAxes) {
  int axes = 0;
  for (const Operator* op : Operators())
    for (const Case& test_case :
         VerificationCases(*op, {1, 5, 6}, Scalar::kFloat32, 1)) {
      const Problem problem = ProblemOf(test_case);
      for (const TensorRule& rule : problem.inputs)
        for (const OffsetAxis& axis : rule.offset_axes) {
          const auto first = Extent(axis.first).Evaluate(problem.dims);
          ASSERT_TRUE(first)
              << test_case.Id() << " " << rule.name << axis.first;
          const int64_t count =
              *Extent(rule.shape.at(static_cast<size_t>(axis.axis)))
                   .Evaluate(problem.dims);
          EXPECT_LE(*first, 0) << test_case.Id() << " " << rule.name;
          EXPECT_LT(-*first, count) << test_case.Id() << " " << rule.name;
          if (axis.of_indices) {
            EXPECT_EQ(*first, 1 - problem.queries) << test_case.Id();
            EXPECT_EQ(*first + count, problem.keys) << test_case.Id();
          }
          ++axes;
        }
    }
  EXPECT_GT(axes, 0);
}

}  // namespace
}  // namespace subquad
