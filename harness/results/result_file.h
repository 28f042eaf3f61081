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

// What makes a record the same point of a sweep as another.
std::string RecordKey(const Json& record);
std::string RecordKey(const std::string& case_id,
                      const std::string& implementation,
                      std::string_view backend, int threads);

// A record of one implementation on one case, without numbers measured yet.
Json MakeRecord(const Case& one, const Problem& problem,
                const Implementation& implementation, int threads,
                const Verdict& verdict);

// The record's part about correctness.
Json CheckJson(const Verdict& verdict);

// The algorithms of these records, as the registry describes them.
Json DescribeAlgorithms(const std::vector<Json>& records);

// Sorts records in the order of the registry, then by scalar type, settings and
// size: merged shards are in the order of a single run.
void SortRecords(std::vector<Json>& records);

// A whole result file: fits and crossovers are computed here.
Json MakeResultFile(const Json& header, const std::vector<Json>& records);

// Throws InvalidInput that names the file, and the record, where a field that
// others read without asking is missing or of another type.
void CheckResults(const Json& file, const std::string& name);

// Whether it was merged from shards of several processors: their times cannot
// be compared.
bool IsMixed(const Json& file);

// Reads a result file; throws InvalidInput naming the file.
Json ReadResultFile(const std::filesystem::path& path);

// Records as they are made: a line each, on disk before the next case begins.
class Journal {
 public:
  // Creates the file, or continues an existing one after its last whole line.
  Journal(const std::filesystem::path& path, const Json& header);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Throws std::runtime_error where the disk is full; earlier records remain
  // readable.
  void Append(const Json& record);

  static std::filesystem::path PathFor(const std::filesystem::path& out);
  // The line before the records; empty where it is not whole.
  static Json ReadHeader(const std::filesystem::path& path);
  // The records of a journal, without an incomplete last line.
  static std::vector<Json> Read(const std::filesystem::path& path);

 private:
  void WriteLine(const std::string& line);
  std::filesystem::path path_;
  int file_ = -1;
};

}  // namespace subquad
