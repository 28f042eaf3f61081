// Studies: what the papers say about approximation, rank, variance and
// precision, measured with the program's own parts.
//
// A study measures tables of numbers and then judges them. The judgement sees
// only the tables and the parameters, so that tests can plant wrong numbers and
// nobody types a verdict.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/cases/draws.h"
#include "harness/papers/frame/claim_verdict.h"
#include "harness/results/result_file.h"
#include "optimized/base/thread_pool.h"

namespace subquad {

struct StudyColumn {
  std::string name, unit, meaning;  // unit "1" for a plain number
};

struct StudyTable {
  std::string name;
  std::vector<StudyColumn> columns;
  std::vector<std::vector<Json>> rows;
  // False for times, which differ from run to run.
  bool repeatable = true;

  void Add(std::vector<Json> row);
  size_t Index(std::string_view column) const;
  // NaN where the cell is null.
  double Number(size_t row, std::string_view column) const;
  std::string Text(size_t row, std::string_view column) const;
  bool Flag(size_t row, std::string_view column) const;
  std::vector<double> Numbers(std::string_view column) const;
};

using StudyTables = std::vector<StudyTable>;
const StudyTable& FindTable(const StudyTables& tables, std::string_view name);

struct StudyVerdict {
  std::string claim;
  std::string says;  // the claim in our words
  ClaimVerdict outcome = ClaimVerdict::kNotReproduced;
  std::string numbers;     // a sentence made from the numbers
  bool repeatable = true;  // false if a time is among them
  // This project's own claim, not a paper's: committed results must reproduce
  // it.
  bool ours = false;

  // A claim that holds only in part is a finding, one that fails is an error.
  bool holds() const { return outcome != ClaimVerdict::kNotReproduced; }
};

// Thrown out of StudyRun::For after Ctrl-C.
struct StudyInterrupted {};

// What a study runs with: random numbers, threads, progress.
class StudyRun {
 public:
  StudyRun(std::string study, uint64_t seed, int threads, bool show_progress);

  uint64_t seed() const { return seed_; }
  int threads() const { return pool_.threads(); }
  // An independent stream for each purpose within a study.
  Draws DrawsOf(const std::string& purpose) const;

  // Calls work(index) for every index in [0, count) on all threads. Each index
  // writes to its own place, and sums are taken in the order of the indices:
  // results are then bit-identical for any number of threads.
  void For(int64_t count, const std::function<void(int64_t index)>& work);

  // The same, one index after another on this thread. For studies that run
  // implementations: a Trial poisons the workspaces of the whole program.
  void InTurn(int64_t count, const std::function<void(int64_t index)>& work);

 private:
  std::string study_;
  uint64_t seed_;
  ThreadPool pool_;
  bool show_progress_;
};

struct Study {
  std::string name;
  std::string purpose;  // one sentence
  std::string source;   // paper and place
  Json parameters;      // all numbers that it depends on, except the seed
  Json tiny;            // replaces some of them: seconds instead of minutes
  StudyTables (*measure)(StudyRun& run, const Json& parameters);
  std::vector<StudyVerdict> (*judge)(const Json& parameters,
                                     const StudyTables& tables);
};

struct StudyResult {
  Json parameters;
  StudyTables tables;
  std::vector<StudyVerdict> verdicts;
  bool holds() const;
};

// `changes` replaces parameters.
StudyResult RunStudy(const Study& study, bool tiny, StudyRun& run,
                     const Json& changes = Json::object());

// Format study/1 (reports/files/study.schema.json). `header` has command,
// created, seed and environment.
Json StudyJson(const Study& study, const StudyResult& result,
               const Json& header);

// As text, with one line for each row of a table.
std::string StudyText(Json json);
// All verdicts of study files as a table in Markdown.
std::string VerdictTable(const std::vector<Json>& files);

}  // namespace subquad
