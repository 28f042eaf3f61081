#include "harness/results/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "harness/machine/build_info.h"

namespace subquad {

template <>
struct EnumValues<Outcome> {
  static constexpr std::array kValues = {Outcome::kPassed, Outcome::kFailed,
                                         Outcome::kMistrusted,
                                         Outcome::kSkipped};
};

template <>
struct EnumValues<Backend> {
  static constexpr std::array kValues = {Backend::kCpu, Backend::kCuda};
};

template <>
struct JsonValue<Scalar> {
  static Json Write(Scalar value) { return std::string(Info(value).name); }
  static void Read(const Json& json, const std::string& where, Scalar& value) {
    const auto name = ReadJson<std::string>(json, where);
    try {
      value = ParseScalar(name);
    } catch (const InvalidInput& problem) {
      throw problem.In(where);
    }
  }
};

template <>
struct JsonValue<ComparedRows> {
  static Json Write(const ComparedRows& rows) {
    return rows.all ? Json("all") : Json(rows.count);
  }
  static void Read(const Json& json, const std::string& where,
                   ComparedRows& rows) {
    rows.all = json == Json("all");
    if (!rows.all) rows.count = ReadJson<int64_t>(json, where);
  }
};

template <>
struct JsonValue<Setting> {
  static Json Write(const Setting& setting) {
    return std::visit([](const auto& value) { return Json(value); }, setting);
  }
  static void Read(const Json& json, const std::string& where,
                   Setting& setting) {
    const auto is_integer = [](const Json& entry) {
      return entry.is_number_integer();
    };
    if (json.is_boolean())
      setting = json.get<bool>();
    else if (json.is_number_integer())
      setting = json.get<int64_t>();
    else if (json.is_number())
      setting = json.get<double>();
    else if (json.is_string())
      setting = json.get<std::string>();
    else if (json.is_array() && std::ranges::all_of(json, is_integer))
      setting = json.get<std::vector<int64_t>>();
    else
      setting = ReadJson<std::vector<std::string>>(json, where);
  }
};

template <FieldsOf<RecordedMistakes> T, typename Fields>
void VisitFields(T& mistakes, Fields&& fields) {
  fields("margin", mistakes.margin, Empty::kNull);
  fields("nearest", mistakes.nearest, Empty::kNull);
  fields("blind_to", mistakes.blind_to, Empty::kValue);
  fields("wrong_share", mistakes.wrong_share, Empty::kNull);
  fields("looks_like", mistakes.looks_like, Empty::kNull);
}

template <FieldsOf<RecordCheck> T, typename Fields>
void VisitFields(T& check, Fields&& fields) {
  fields("verdict", check.verdict, Empty::kValue);
  fields("reason", check.reason, Empty::kNull);
  fields("error", check.error, Empty::kNull);
  fields("max_error", check.max_error, Empty::kNull);
  fields("bound", check.bound, Empty::kNull);
  fields("error_ratio", check.error_ratio, Empty::kNull);
  fields("rows", check.rows, Empty::kNull);
  fields("gates", check.gates, Empty::kNull);
  fields.Group(check.mistakes);
}

template <FieldsOf<RecordedInputs> T, typename Fields>
void VisitFields(T& inputs, Fields&& fields) {
  fields("source", inputs.source, Empty::kValue);
  fields("rows", inputs.fit.rows, Empty::kValue);
  fields("fitted", inputs.fit.fitted, Empty::kValue);
  fields("offsets", inputs.fit.offsets, Empty::kNull);
  fields("taken", inputs.fit.taken, Empty::kValue);
  fields("generated", inputs.fit.generated, Empty::kValue);
  fields("digest", inputs.digest, Empty::kOmitted);
}

template <FieldsOf<RecordedDevice> T, typename Fields>
void VisitFields(T& device, Fields&& fields) {
  fields("clock", device.clock, Empty::kValue);
  fields("cache", device.cache, Empty::kValue);
  fields("upload_seconds", device.upload_seconds, Empty::kNull);
  fields("download_seconds", device.download_seconds, Empty::kNull);
  fields("after", device.after, Empty::kOmitted);
}

template <FieldsOf<RecordedForms> T, typename Fields>
void VisitFields(T& forms, Fields&& fields) {
  fields("counted", forms.counted, Empty::kNull);
  fields("eager_seconds", forms.eager_seconds, Empty::kNull);
  fields("graph_seconds", forms.graph_seconds, Empty::kNull);
  fields("why_no_graph", forms.why_no_graph, Empty::kNull);
}

template <FieldsOf<Record> T, typename Fields>
void VisitFields(T& record, Fields&& fields) {
  fields("operator", record.op, Empty::kValue);
  fields("implementation", record.implementation, Empty::kValue);
  fields("backend", record.backend, Empty::kValue);
  fields("scalar", record.scalar, Empty::kValue);
  fields("threads", record.threads, Empty::kValue);
  fields("program", record.program, Empty::kValue);
  fields("size", record.size, Empty::kValue);
  fields("tokens", record.tokens, Empty::kValue);
  fields("length_axes", record.length_axes, Empty::kValue);
  fields("params", record.params, Empty::kValue);
  fields("case", record.case_id, Empty::kValue);
  fields("input", record.input, Empty::kOmitted);
  fields("setup_seconds", record.setup_seconds, Empty::kNull);
  fields("first_seconds", record.first_seconds, Empty::kNull);
  fields("seconds", record.seconds, Empty::kNull);
  fields("workspace_bytes", record.workspace_bytes, Empty::kNull);
  fields("workspace_formula_bytes", record.workspace_formula_bytes,
         Empty::kNull);
  fields("resident_bytes", record.resident_bytes, Empty::kNull);
  fields("flops", record.flops, Empty::kNull);
  fields("bytes", record.bytes, Empty::kNull);
  fields("forms", record.forms, Empty::kOmitted);
  fields("check", record.check, Empty::kValue);
  fields("inputs", record.inputs, Empty::kOmitted);
  fields("choice", record.choice, Empty::kOmitted);
  fields("digest", record.digest, Empty::kOmitted);
  fields("device", record.device, Empty::kOmitted);
  fields("deterministic", record.deterministic, Empty::kOmitted);
  fields("timed_with", record.timed_with, Empty::kOmitted);
  fields("remark", record.remark, Empty::kOmitted);
}

namespace {

std::optional<double> Finite(double value) {
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

bool IsLength(const Problem& problem, const std::string& name) {
  return std::ranges::count(problem.length_axes, name) > 0;
}

// Returns the parameters that a user would set, without tables.
Named<Setting> ParamsOf(const Case& test_case, const Problem& problem) {
  Named<Setting> params;
  const auto add = [&](const std::string& name, const auto& value) {
    if constexpr (std::is_constructible_v<Setting, decltype(value)>)
      params.emplace_back(name, value);
  };
  for (const auto& [name, value] : test_case.params.values())
    if (!IsLength(problem, name))
      std::visit([&](const auto& typed) { add(name, typed); }, value);
  if (test_case.backward) add("backward", true);
  if (!test_case.with.empty()) add("with", test_case.with);
  if (test_case.leading.per_head) add("per_head", true);
  if (!test_case.leading.own.empty())
    add("leading", LeadingText(test_case.leading.own));
  if (!test_case.leading.shared.empty())
    add("shared", SharedText(test_case.leading.shared));
  if (test_case.omega != "gaussian") add("omega", test_case.omega);
  return params;
}

template <typename Value>
const std::string& NameOf(const std::pair<std::string, Value>& named) {
  return named.first;
}

Named<int64_t> SizeOf(const Case& test_case, const Problem& problem) {
  Named<int64_t> size = {{"n_q", problem.queries}, {"n_k", problem.keys}};
  const auto set = [&](const std::string& name, int64_t extent) {
    const auto there = std::ranges::find(size, name, NameOf<int64_t>);
    if (there == size.end())
      size.emplace_back(name, extent);
    else
      there->second = extent;
  };
  for (const auto& [name, extent] : problem.dims)
    if (!test_case.params.Has(name) || IsLength(problem, name))
      set(name, extent);
  set("heads", problem.heads / problem.Batch());
  if (problem.leading.size() == 2) set("batch", problem.Batch());
  return size;
}

}  // namespace

PointKey PointKey::Of(const Json& record) {
  return {record.at("case"), record.at("implementation"),
          record.at("backend") == "cuda" ? Backend::kCuda : Backend::kCpu,
          record.at("threads")};
}

std::string PointKey::Text() const {
  return fmt::format("{}|{}|{}|{}", case_id, implementation, ToString(backend),
                     threads);
}

int64_t Record::Extent(const std::string& name) const {
  const auto there = std::ranges::find(size, name, NameOf<int64_t>);
  if (there == size.end())
    throw InvalidInput(case_id + ": size", "an extent " + name, "none");
  return there->second;
}

std::string Record::ParamsText() const { return WriteJson(params).dump(); }

void Record::Fail(const std::string& reason) {
  seconds.reset();
  check.verdict = Outcome::kFailed;
  check.reason = reason;
}

RecordCheck CheckOf(const Verdict& verdict) {
  const Comparison& numbers = verdict.comparison;
  RecordCheck check{.verdict = verdict.outcome,
                    .reason = verdict.reason,
                    .gates = verdict.gates,
                    .mistakes = RecordedMistakes()};
  if (numbers.elements == 0) return check;
  for (const BlindSpot& spot : verdict.margin.blind_to)
    check.mistakes->blind_to.push_back(spot.name);
  if (verdict.diagnosis) {
    check.mistakes->wrong_share = verdict.diagnosis->Share();
    check.mistakes->looks_like = verdict.diagnosis->looks_like.name;
  }
  check.max_error = Finite(numbers.max_error);
  if (numbers.judged() > 0) {
    check.error = Finite(numbers.max_over_bound);
    check.bound = Finite(numbers.bound);
    check.error_ratio = Finite(numbers.over_plain);
    check.mistakes->margin = Finite(verdict.margin.value);
    check.mistakes->nearest = verdict.margin.nearest;
  }
  check.rows = ComparedRows{numbers.all_rows, numbers.rows};
  return check;
}

Record MakeRecord(const Case& test_case, const Problem& problem,
                  const Implementation& implementation, int threads,
                  const Verdict& verdict) {
  const Cost cost = implementation.CostOf(problem, threads);
  Record record{.op = implementation.op,
                .implementation = implementation.id,
                .backend = implementation.backend,
                .scalar = test_case.scalar,
                .threads = threads,
                .program = kProgram,
                .size = SizeOf(test_case, problem),
                .tokens = problem.queries,
                .length_axes = problem.length_axes,
                .params = ParamsOf(test_case, problem),
                .case_id = test_case.Id(),
                .input = test_case.input,
                .workspace_formula_bytes = Finite(cost.workspace_bytes),
                .flops = Finite(cost.flops),
                .bytes = Finite(cost.bytes),
                .check = CheckOf(verdict)};
  if (test_case.source)
    record.inputs =
        RecordedInputs{test_case.input, FitSource(*test_case.source, problem),
                       test_case.source->digest};
  return record;
}

Json ToJson(const RecordCheck& check) { return WriteJson(check); }
Json ToJson(const Record& record) { return WriteJson(record); }

std::vector<Json> ToJson(const std::vector<Record>& records) {
  std::vector<Json> list;
  for (const Record& record : records) list.push_back(ToJson(record));
  return list;
}

Record RecordOf(const Json& json, const std::string& where) {
  const auto record = ReadJson<Record>(json, where);
  if (record.length_axes.empty())
    throw InvalidInput(where + ": length_axes", "names of sizes", "none");
  std::vector<std::string> extents = record.length_axes;
  extents.insert(extents.end(), {"n_q", "n_k"});
  for (const std::string& name : extents)
    if (!std::ranges::count(record.size, name, NameOf<int64_t>))
      throw InvalidInput(where + ": size", "an extent " + name, "none");
  return record;
}

std::vector<JsonField> FieldsOfRecords() { return ListFields<Record>(); }

}  // namespace subquad
