// What claims are answered from: records by the machine that made them, and
// studies.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/base/statistics.h"
#include "harness/results/result_file.h"

namespace subquad {

// Times are compared on one machine with one build only.
struct Machine {
  std::string name;  // processor and commit
  Json environment;
  // Shards of several processors: only bytes and counts may be compared.
  bool mixed = false;
  std::vector<Json> records;
};

struct StudyFile {
  std::string file;
  Json content;
};

struct Evidence {
  std::vector<Machine> machines;
  std::vector<StudyFile> studies;
  Json files = Json::array();  // what was read, for the claims file
};

// Reads result and study files; of a folder all that are below it, other JSON
// files left out. Throws InvalidInput that names the file, and the record.
Evidence ReadEvidence(const std::vector<std::string>& paths);
void AddResults(const Json& file, const std::string& name, Evidence& evidence);

// One size of a curve; NaN where a number is missing.
struct MeasuredPoint {
  double n;
  double seconds, low, high;
  double workspace, formula, flops, bytes;
  Json size;

  bool has_time() const;
};

struct Measured {
  Json settings = Json::object();     // CurveSettings
  std::vector<MeasuredPoint> points;  // that passed, by n
  int64_t refused = 0;  // records that failed, are mistrusted or were skipped
  std::string reason;   // of the first of them
  bool mixed = false;

  bool empty() const { return points.empty(); }
  const MeasuredPoint* At(double n) const;
};

// Which records: sizes and parameters that are not named may be any, `causal`,
// `backward`, `with` and `per_head` are off unless named. Float32 on one
// thread of the CPU with normal draws.
struct Wanted {
  std::string op, implementation;
  Json params = Json::object();
  Json size = Json::object();
};

// The curve with most points among those of equal settings.
Measured Find(const Machine& machine, const Wanted& wanted);

// How a quantity grows, as `fits` of a result file has it, with the condition
// that it was measured at four sizes or more, over a factor of eight or more.
struct Growth {
  bool known = false;
  double exponent = 0;
  Interval interval;
  double n_min = 0, n_max = 0;
  std::string why_not;  // where it is not known
};
Growth TimeGrowth(const Measured& measured);
Growth WorkspaceGrowth(const Measured& measured);
Growth FlopGrowth(const Measured& measured);

// slow / fast with the interval that the two intervals give; NaN where a time
// is missing.
struct Quotient {
  double ratio;
  Interval interval;
};
Quotient TimeRatio(const MeasuredPoint& slow, const MeasuredPoint& fast);

// Where `fast` overtakes `dense` in time, on the sizes that both have.
Crossover TimeCrossover(const Measured& fast, const Measured& dense);

}  // namespace subquad
