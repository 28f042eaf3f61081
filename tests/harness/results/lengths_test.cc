// Records of one curve have the same settings, whichever program wrote them.
#include "harness/results/lengths.h"

#include <gtest/gtest.h>

#include <string>

#include "harness/cases/case.h"
#include "harness/registry/registry.h"
#include "harness/results/result_file.h"

namespace subquad {
namespace {

Json RecordOf(const std::string& id) {
  const Case test_case = MakeCase(ParseCaseId(id));
  return ToJson(MakeRecord(test_case, ProblemOf(test_case),
                           *ImplementationsOf(*test_case.op).front(), 1, {}));
}

TEST(Lengths, AreDeclaredByTheOperator) {
  const Json record = RecordOf("transformer_xl_attention:L=64,M=32");
  EXPECT_EQ(record.at("size").at("n_q"), 64);
  EXPECT_EQ(record.at("size").at("n_k"), 96);
  EXPECT_EQ(record.at("tokens"), 64);
  EXPECT_EQ(record.at("length_axes"), Json({"L", "M"}));
  EXPECT_EQ(
      RecordOf("sparse_attention:n=64,pattern=local,block=8").at("length_axes"),
      Json({"n_q", "n_k"}));
  EXPECT_EQ(
      RecordOf("sparse_attention:n=64,pattern=etc,window=8").at("length_axes"),
      Json({"n"}));
  const Json image = RecordOf("toeplitz_2d:height=6,width=4");
  EXPECT_EQ(image.at("tokens"), 24);
  EXPECT_EQ(image.at("size").at("n_k"), 24);
  EXPECT_EQ(image.at("length_axes"), Json({"height", "width"}));
  EXPECT_FALSE(image.at("params").contains("height"));
}

TEST(Lengths, AreCoordinatesOfACurveAndNotAmongItsSettings) {
  for (const auto& [small, large, n] :
       {std::tuple{"toeplitz_1d:n=32", "toeplitz_1d:n=64", 64},
        {"transformer_xl_attention:L=32,M=32",
         "transformer_xl_attention:L=64,M=64", 64},
        {"sparse_attention:n=32,pattern=local,block=8",
         "sparse_attention:n=64,pattern=local,block=8", 64},
        {"toeplitz_2d:height=4,width=4", "toeplitz_2d:height=8,width=8", 64},
        {"toeplitz_2d:height=4,width=2", "toeplitz_2d:height=8,width=4", 32}}) {
    EXPECT_EQ(CurveSettings(RecordOf(small)), CurveSettings(RecordOf(large)));
    EXPECT_EQ(LengthOf(RecordOf(large)), n) << large;
  }
}

TEST(Lengths, OfOtherProportionsAreOtherCurves) {
  const Json wide = RecordOf("toeplitz_1d:n_q=32,n_k=64");
  EXPECT_EQ(LengthOf(wide), 64);
  EXPECT_EQ(CurveSettings(wide).at("size").at("n_q"), 32);
  EXPECT_NE(CurveSettings(wide), CurveSettings(RecordOf("toeplitz_1d:n=64")));
  EXPECT_EQ(CurveSettings(wide),
            CurveSettings(RecordOf("toeplitz_1d:n_q=32,n_k=128")));
  const Json image = RecordOf("toeplitz_2d:height=8,width=4");
  EXPECT_EQ(CurveSettings(image).at("aspect"), "2:1");
  EXPECT_NE(CurveSettings(image),
            CurveSettings(RecordOf("toeplitz_2d:height=4,width=8")));
  const Json square = RecordOf("toeplitz_2d:height=8,width=8");
  EXPECT_FALSE(CurveSettings(square).contains("aspect"));
}

}  // namespace
}  // namespace subquad
