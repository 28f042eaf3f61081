// JSON that users write: errors name the line, the column and the key.
#include "harness/base/json_text.h"

#include <gtest/gtest.h>

namespace subquad {
namespace {

std::string MessageFor(const std::string& text) {
  try {
    ParseJsonText<nlohmann::json>("file.json", text);
  } catch (const InvalidInput& problem) {
    return problem.what();
  }
  return "none";
}

TEST(JsonText, ReadsValidText) {
  EXPECT_EQ("none", MessageFor(R"({"a": [1, {"b": null}]})"));
  EXPECT_EQ(2, ParseJsonText<nlohmann::json>("x", R"({"a": 2})").at("a"));
}

TEST(JsonText, NamesThePlaceOfAnError) {
  EXPECT_EQ(
      "file.json: expected valid JSON, found an error at line 3, column 7",
      MessageFor("{\n \"a\": 1,\n \"b\": x\n}"));
  EXPECT_EQ(
      "file.json: expected valid JSON, found an error at line 1, column 2",
      MessageFor("{"));
  EXPECT_EQ(
      "file.json: expected valid JSON, found an error at line 1, column 1",
      MessageFor(""));
}

TEST(JsonText, RefusesRepeatedKeys) {
  EXPECT_EQ("file.json: a: expected one value, found two",
            MessageFor(R"({"a": 1, "a": 1})"));
  // The same key in two objects is not repeated.
  EXPECT_EQ("none", MessageFor(R"([{"a": 1}, {"a": {"a": 1}}])"));
}

TEST(JsonText, RefusesDeepNestingAndNumbersOutOfRange) {
  const auto nested = [](int levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  EXPECT_EQ("none", MessageFor(nested(8)));
  EXPECT_EQ("file.json: expected at most 8 levels, found deeper nesting",
            MessageFor(nested(10)));
  EXPECT_EQ(
      "file.json: expected valid JSON with numbers that fit into float64, "
      "found a larger number",
      MessageFor("[1e999]"));
}

}  // namespace
}  // namespace subquad
