// The studies under reports/results, judged again by the rules of this build:
// the project's claims about itself hold in the numbers that it publishes.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "harness/papers/papers.h"
#include "tests/places.h"

namespace subquad {
namespace {

namespace fs = std::filesystem;

StudyTables TablesOf(const Json& file) {
  StudyTables tables;
  for (const auto& [name, content] : file.at("tables").items()) {
    StudyTable table{name, {}, {}, content.at("repeatable")};
    for (const Json& column : content.at("columns"))
      table.columns.push_back(
          {column.at("name"), column.at("unit"), column.at("meaning")});
    for (const Json& row : content.at("rows"))
      table.rows.push_back(row.get<std::vector<Json>>());
    tables.push_back(std::move(table));
  }
  return tables;
}

// Returns one line for each verdict that differs from the expected one.
std::vector<std::string> Wrong(const Json& file) {
  const Study& study = FindStudy(file.at("study").get<std::string>());
  std::vector<std::string> wrong;
  for (const StudyVerdict& verdict :
       study.judge(file.at("parameters"), TablesOf(file))) {
    const std::string outcome(ToString(verdict.outcome));
    if (verdict.ours && verdict.outcome != ClaimVerdict::kReproduced)
      wrong.push_back(verdict.claim + " is " + outcome + ": " +
                      verdict.numbers);
    for (const Json& published : file.at("verdicts"))
      if (published.at("claim") == verdict.claim &&
          published.at("verdict") != outcome)
        wrong.push_back(verdict.claim + " is published as " +
                        published.at("verdict").get<std::string>() +
                        " and judged as " + outcome);
  }
  return wrong;
}

std::vector<Json> PublishedStudies() {
  std::vector<Json> files;
  for (const auto& entry : fs::recursive_directory_iterator(
           fs::path(kSourceFolder) / "reports" / "results")) {
    if (entry.path().extension() != ".json") continue;
    std::ifstream stream(entry.path());
    Json file = Json::parse(stream);
    if (file.value("format", "") == "study/1") files.push_back(std::move(file));
  }
  return files;
}

TEST(CommittedResults, ReproduceTheProjectsClaims) {
  const std::vector<Json> files = PublishedStudies();
  ASSERT_FALSE(files.empty());
  for (const Json& file : files)
    for (const std::string& line : Wrong(file))
      ADD_FAILURE() << file.at("study") << ": " << line;
}

// A direct sum that leaks, like a transform wrongly listed as a direct sum, is
// found.
TEST(CommittedResults, APlantedLeakIsFound) {
  for (Json& file : PublishedStudies()) {
    if (file.at("study") != "precision") continue;
    ASSERT_TRUE(Wrong(file).empty());
    Json& table = file["tables"]["leak"];
    size_t leak = 0, group = 0;
    for (size_t c = 0; c < table["columns"].size(); ++c) {
      if (table["columns"][c]["name"] == "leak") leak = c;
      if (table["columns"][c]["name"] == "class") group = c;
    }
    for (Json& row : table["rows"])
      if (row[group] == "direct") row[leak] = 6.6e-9;
    const std::vector<std::string> wrong = Wrong(file);
    // The claim is not reproduced, but published as if it were.
    EXPECT_GE(
        std::ranges::count_if(wrong,
                              [](const std::string& line) {
                                return line.starts_with("precision-leak ");
                              }),
        2);
    return;
  }
  FAIL() << "no committed study of precision";
}

}  // namespace
}  // namespace subquad
