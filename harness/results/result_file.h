// Result files, format results/1 (reports/files/results.schema.json).
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/cases/case.h"
#include "harness/judging/verdict.h"
#include "reference/contract/implementation.h"

namespace subquad {

using Json = nlohmann::ordered_json;

// Returns the key of a record's point; records with equal keys are the same
// point of a sweep.
std::string RecordKey(const Json& record);
std::string RecordKey(const std::string& case_id,
                      const std::string& implementation,
                      std::string_view backend, int threads);

// Returns a record of one implementation on one case, before anything is
// measured.
Json MakeRecord(const Case& test_case, const Problem& problem,
                const Implementation& implementation, int threads,
                const Verdict& verdict);

// Returns the `check` of a record.
Json CheckJson(const Verdict& verdict);

// Describes the algorithms of these records, as in the registry.
Json DescribeAlgorithms(const std::vector<Json>& records);

// Sorts records in the order of the registry, then by scalar type, settings and
// size, so that merged shards are in the order of a single run.
void SortRecords(std::vector<Json>& records);

// Returns a complete result file and computes its fits and crossovers.
Json MakeResultFile(const Json& header, const std::vector<Json>& records);

// Throws InvalidInput that names the file and the record if a required field is
// missing or has a wrong type.
void CheckResults(const Json& file, const std::string& name);

// Tells whether a file was merged from shards of several processors, whose
// times cannot be compared.
bool IsMixed(const Json& file);

// Reads a result file; throws InvalidInput naming the file.
Json ReadResultFile(const std::filesystem::path& path);

// Describes the format of a parsed file for messages: `format "study/1"`,
// `JSON without a field "format"`, or `a file that is not JSON`.
std::string FormatWords(const Json& file);

// Writes records as they are made, one per line, each on disk before the next
// case begins.
class Journal {
 public:
  // Creates the file, or continues an existing one after its last whole line.
  Journal(const std::filesystem::path& path, const Json& header);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Appends a record. Throws std::runtime_error if the disk is full; earlier
  // records remain readable.
  void Append(const Json& record);

  static std::filesystem::path PathFor(const std::filesystem::path& out);
  // Returns the line before the records; empty if it is incomplete.
  static Json ReadHeader(const std::filesystem::path& path);
  // Returns the records of a journal without an incomplete last line.
  static std::vector<Json> Read(const std::filesystem::path& path);

 private:
  void WriteLine(const std::string& line);
  std::filesystem::path path_;
  int file_ = -1;
};

}  // namespace subquad
