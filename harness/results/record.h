// A record, one entry of a result file (format results/1): one implementation
// on one case, with its check, times and memory. `reports/files/
// results.schema.json` describes the same fields for other languages, and
// `record_test` compares the two.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "harness/base/json_fields.h"
#include "harness/cases/case.h"
#include "harness/cases/input_source.h"
#include "harness/judging/verdict.h"
#include "harness/machine/environment.h"
#include "harness/results/times.h"
#include "reference/contract/implementation.h"

namespace subquad {

// The value of an operator's parameter that a user would set.
using Setting = std::variant<bool, int64_t, double, std::string,
                             std::vector<int64_t>, std::vector<std::string>>;

// The point of a sweep that a record belongs to.
struct PointKey {
  std::string case_id, implementation;
  Backend backend = Backend::kCpu;
  int threads = 1;

  auto operator<=>(const PointKey&) const = default;
  // Reads the key alone, so that the record may be of another version of this
  // program.
  static PointKey Of(const Json& record);
  std::string Text() const;  // "CASE|IMPLEMENTATION|BACKEND|THREADS"
};

// The rows of the outputs that were compared.
struct ComparedRows {
  bool all = true;
  int64_t count = 0;  // unless all
};

// The power of a check to tell an output from known mistakes.
struct RecordedMistakes {
  std::optional<double> margin;  // Margin::value
  std::string nearest;           // the wrong answer with that margin
  std::vector<std::string> blind_to;
  // Present if the check failed: the share of wrong elements, and the mistake
  // that the output looks like.
  std::optional<double> wrong_share;
  std::string looks_like;
};

// A verdict as a record has it. Numbers are absent unless something was
// compared.
struct RecordCheck {
  Outcome verdict = Outcome::kSkipped;
  std::string reason;                 // empty if it passed
  std::optional<double> error;        // gate 1: largest error / bound
  std::optional<double> max_error;    // absolute
  std::optional<double> bound;        // at the element of gate 1
  std::optional<double> error_ratio;  // gate 2: error / the plain program's
  std::optional<ComparedRows> rows;
  std::string gates;  // how the gates disagree; empty if they agree
  // Absent for peers, whose outputs are not compared with known mistakes.
  std::optional<RecordedMistakes> mistakes;
};

// The tensors taken from a case folder, and how they were fitted to the case.
struct RecordedInputs {
  std::string source;  // the folder
  SourceFit fit;
  std::string digest;  // of the folder's tensors
};

// The clock of a run on a GPU, and the transfers that its time leaves out.
struct RecordedDevice {
  std::string clock, cache;
  std::optional<double> upload_seconds, download_seconds;
  // Just after the samples. Absent if nothing was timed, null if the device
  // does not tell.
  std::optional<std::optional<DeviceState>> after;
};

// The two ways to start a peer on a GPU, eagerly and as a CUDA graph, their
// times, and the one whose time counts.
struct RecordedForms {
  std::string counted;  // "eager", "graph" or empty if nothing was timed
  std::optional<double> eager_seconds, graph_seconds;
  std::string why_no_graph;
};

struct Record {
  std::string op, implementation;
  Backend backend = Backend::kCpu;
  Scalar scalar = Scalar::kFloat32;
  int threads = 1;
  std::string program;                   // digest of the build that measured
  Named<int64_t> size;                   // extents by name, in elements
  int64_t tokens = 1;                    // queries: rows of the output
  std::vector<std::string> length_axes;  // sizes that grow with the problem
  Named<Setting> params;
  std::string case_id;
  std::string input;
  std::optional<double> setup_seconds, first_seconds;
  std::optional<Times> seconds;  // absent unless it passed
  std::optional<int64_t> workspace_bytes;
  std::optional<double> workspace_formula_bytes;
  std::optional<int64_t> resident_bytes;
  std::optional<double> flops, bytes;  // of one run, by the algorithm's count
  std::optional<RecordedForms> forms;
  RecordCheck check;
  std::optional<RecordedInputs> inputs;  // of a case folder
  std::string choice;  // what the implementation chose; empty without a choice
  std::string digest;  // of the bits of the judged outputs
  std::optional<RecordedDevice> device;
  std::optional<bool> deterministic;  // whether a second run gave the same bits
  std::vector<std::string>
      timed_with;      // inputs timed alternately with this one
  std::string remark;  // on the timing of a user's function; empty without one

  bool passed() const { return check.verdict == Outcome::kPassed; }
  PointKey Key() const { return {case_id, implementation, backend, threads}; }

  // Returns an extent of `size`. Throws InvalidInput if there is none.
  int64_t Extent(const std::string& name) const;
  // Returns the parameters as JSON.
  std::string ParamsText() const;

  // Fails a record and removes its time.
  void Fail(const std::string& reason);
};

// Returns a record of one implementation on one case, before anything is
// measured.
Record MakeRecord(const Case& test_case, const Problem& problem,
                  const Implementation& implementation, int threads,
                  const Verdict& verdict);

// Returns the `check` of a record.
RecordCheck CheckOf(const Verdict& verdict);

Json ToJson(const RecordCheck& check);
Json ToJson(const Record& record);
std::vector<Json> ToJson(const std::vector<Record>& records);

// Reads a record. Throws InvalidInput that names `where` and the field if a
// field is missing, unknown or of a wrong type.
Record RecordOf(const Json& json, const std::string& where);

// Returns the fields of a record's JSON, for the comparison with the schema.
std::vector<JsonField> FieldsOfRecords();

}  // namespace subquad
