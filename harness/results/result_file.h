// Result files, format results/1 (reports/files/results.schema.json).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/results/record.h"

namespace subquad {

// How and where a result file was measured.
struct RunInfo {
  std::string command;  // the command line
  std::string created;  // when the run started: ISO 8601
  uint64_t seed = 1;
  Environment environment;

  Json ToJson() const;
  // Reads these fields of a result file or of the first line of a journal.
  // Throws InvalidInput naming the file.
  static RunInfo Of(const Json& file, const std::string& name);
};

// Describes the algorithms of these records, as in the registry.
Json DescribeAlgorithms(const std::vector<Record>& records);

// Sorts records in the order of the registry, then by scalar type, settings and
// size, so that merged shards are in the order of a single run.
void SortRecords(std::vector<Record>& records);

// Returns a complete result file and computes its fits and crossovers.
Json MakeResultFile(const RunInfo& run, const std::vector<Record>& records);

// Returns the records of a result file. Throws InvalidInput that names the file
// and the record if a field is missing or has a wrong type.
std::vector<Record> RecordsOf(const Json& file, const std::string& name);

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
  Journal(const std::filesystem::path& path, const RunInfo& run);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Appends a record. Throws std::runtime_error if the disk is full; earlier
  // records remain readable.
  void Append(const Record& record);

  static std::filesystem::path PathFor(const std::filesystem::path& out);
  // Returns the run of a journal; an empty object if its line is incomplete.
  static Json ReadRun(const std::filesystem::path& path);
  // Returns the records of a journal without an incomplete last line.
  static std::vector<Json> Read(const std::filesystem::path& path);

 private:
  void WriteLine(const std::string& line);
  std::filesystem::path path_;
  int file_ = -1;
};

}  // namespace subquad
