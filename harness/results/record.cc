#include "harness/results/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <set>
#include <span>
#include <string_view>
#include <type_traits>

#include "harness/machine/build_info.h"

namespace subquad {
namespace {

// How a field without a value is written.
enum class Empty {
  kValue,    // it always has a value
  kNull,     // as null
  kOmitted,  // not at all
};

// The fields of each struct, in the order of the file. One list serves writing,
// reading and the comparison with the schema; `fields` is called with a name,
// the member and how an empty value is written.
template <typename Fields, typename T>
requires std::same_as<std::remove_const_t<T>, RecordedMistakes>
void Visit(T& mistakes, Fields&& fields) {
  fields("margin", mistakes.margin, Empty::kNull);
  fields("nearest", mistakes.nearest, Empty::kNull);
  fields("blind_to", mistakes.blind_to, Empty::kValue);
  fields("wrong_share", mistakes.wrong_share, Empty::kNull);
  fields("looks_like", mistakes.looks_like, Empty::kNull);
}

template <typename Fields, typename T>
requires std::same_as<std::remove_const_t<T>, RecordCheck>
void Visit(T& check, Fields&& fields) {
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

template <typename Fields, typename T>
requires std::same_as<std::remove_const_t<T>, RecordedInputs>
void Visit(T& inputs, Fields&& fields) {
  fields("source", inputs.source, Empty::kValue);
  fields("rows", inputs.fit.rows, Empty::kValue);
  fields("fitted", inputs.fit.fitted, Empty::kValue);
  fields("offsets", inputs.fit.offsets, Empty::kNull);
  fields("taken", inputs.fit.taken, Empty::kValue);
  fields("generated", inputs.fit.generated, Empty::kValue);
  fields("digest", inputs.digest, Empty::kOmitted);
}

template <typename Fields, typename T>
requires std::same_as<std::remove_const_t<T>, DeviceState>
void Visit(T& state, Fields&& fields) {
  fields("processor_mhz", state.processor_mhz, Empty::kValue);
  fields("memory_mhz", state.memory_mhz, Empty::kValue);
  fields("throttled", state.throttled, Empty::kValue);
}

template <typename Fields, typename T>
requires std::same_as<std::remove_const_t<T>, RecordedDevice>
void Visit(T& device, Fields&& fields) {
  fields("clock", device.clock, Empty::kValue);
  fields("cache", device.cache, Empty::kValue);
  fields("upload_seconds", device.upload_seconds, Empty::kNull);
  fields("download_seconds", device.download_seconds, Empty::kNull);
  fields("after", device.after, Empty::kOmitted);
}

template <typename Fields, typename T>
requires std::same_as<std::remove_const_t<T>, RecordedForms>
void Visit(T& forms, Fields&& fields) {
  fields("counted", forms.counted, Empty::kNull);
  fields("eager_seconds", forms.eager_seconds, Empty::kNull);
  fields("graph_seconds", forms.graph_seconds, Empty::kNull);
  fields("why_no_graph", forms.why_no_graph, Empty::kNull);
}

template <typename Fields, typename T>
requires std::same_as<std::remove_const_t<T>, Record>
void Visit(T& record, Fields&& fields) {
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
}

template <typename T>
concept HasFields = std::same_as<T, Record> || std::same_as<T, RecordCheck> ||
    std::same_as<T, RecordedInputs> || std::same_as<T, RecordedDevice> ||
    std::same_as<T, DeviceState> || std::same_as<T, RecordedForms>;

template <typename T>
bool IsEmpty(const std::optional<T>& value) {
  return !value;
}
bool IsEmpty(const auto& value) {
  if constexpr (requires { value.empty(); })
    return value.empty();
  else
    return false;
}

// ---- writing ---------------------------------------------------------------

class FieldWriter {
 public:
  template <typename T>
  void operator()(const char* name, const T& value, Empty empty) {
    if (empty != Empty::kValue && IsEmpty(value)) {
      if (empty == Empty::kNull) json_[name] = nullptr;
      return;
    }
    json_[name] = JsonOf(value);
  }

  // Writes the fields of a member into the enclosing object.
  template <typename T>
  void Group(const std::optional<T>& member) {
    if (member) Visit(*member, *this);
  }

  Json Take() { return std::move(json_); }

  static Json JsonOf(Backend value) { return std::string(ToString(value)); }
  static Json JsonOf(Scalar value) { return std::string(Info(value).name); }
  static Json JsonOf(Outcome value) { return std::string(ToString(value)); }
  static Json JsonOf(const Times& value) { return TimesJson(value); }
  static Json JsonOf(const ComparedRows& rows) {
    return rows.all ? Json("all") : Json(rows.count);
  }
  static Json JsonOf(const Setting& setting) {
    return std::visit([](const auto& value) { return Json(value); }, setting);
  }
  template <typename T>
  static Json JsonOf(const std::optional<T>& value) {
    return value ? JsonOf(*value) : Json(nullptr);
  }
  template <typename T>
  static Json JsonOf(const Named<T>& values) {
    Json json = Json::object();
    for (const auto& [name, value] : values) json[name] = JsonOf(value);
    return json;
  }
  static Json JsonOf(const HasFields auto& value) {
    FieldWriter writer;
    Visit(value, writer);
    return writer.Take();
  }
  static Json JsonOf(const auto& value) { return Json(value); }

 private:
  Json json_ = Json::object();
};

// ---- reading ---------------------------------------------------------------

// Throws InvalidInput naming `where`, which is the path of the value.
class FieldReader {
 public:
  FieldReader(const Json& json, std::string where)
      : json_(json), where_(std::move(where)) {
    if (!json.is_object())
      throw InvalidInput(where_, "an object", std::string(json.type_name()));
  }

  template <typename T>
  void operator()(const char* name, T& value, Empty empty) {
    known_.insert(name);
    const auto field = json_.find(name);
    const std::string path = where_ + ": " + name;
    if (field == json_.end()) {
      if (empty == Empty::kOmitted) return;
      throw InvalidInput(path, "this field", "none");
    }
    if (field->is_null() && empty == Empty::kNull) return;
    Read(*field, path, value);
  }

  // Reads the fields of a member if one of them is there.
  template <typename T>
  void Group(std::optional<T>& member) {
    T value;
    bool any = false;
    Visit(value, [&](const char* name, const auto&, Empty) {
      any = any || json_.contains(name);
    });
    if (any) Visit(member.emplace(), *this);
  }

  // Throws InvalidInput if the object has a field that no call has named.
  void RefuseUnknown() const {
    for (const auto& [name, value] : json_.items())
      if (!known_.contains(name))
        throw InvalidInput(where_ + ": " + name, "no such field", value.dump());
  }

 private:
  static InvalidInput Wrong(const std::string& path, const char* expected,
                            const Json& json) {
    return InvalidInput(path, expected, json.dump());
  }

  static void Read(const Json& json, const std::string& path,
                   std::string& value) {
    if (!json.is_string()) throw Wrong(path, "text", json);
    value = json.get<std::string>();
  }
  static void Read(const Json& json, const std::string& path, bool& value) {
    if (!json.is_boolean()) throw Wrong(path, "true or false", json);
    value = json.get<bool>();
  }
  template <std::integral T>
  requires(!std::same_as<T, bool>) static void Read(const Json& json,
                                                    const std::string& path,
                                                    T& value) {
    if (!json.is_number_integer()) throw Wrong(path, "an integer", json);
    value = json.get<T>();
  }
  static void Read(const Json& json, const std::string& path, double& value) {
    if (!json.is_number()) throw Wrong(path, "a number", json);
    value = json.get<double>();
  }
  static void Read(const Json& json, const std::string& path, Backend& value) {
    for (const Backend backend : {Backend::kCpu, Backend::kCuda})
      if (json == Json(ToString(backend))) {
        value = backend;
        return;
      }
    throw Wrong(path, "\"cpu\" or \"cuda\"", json);
  }
  static void Read(const Json& json, const std::string& path, Scalar& value) {
    std::string name;
    Read(json, path, name);
    for (const ScalarInfo& info : kScalars)
      if (info.name == name) {
        value = info.scalar;
        return;
      }
    throw Wrong(path, "a scalar type", json);
  }
  static void Read(const Json& json, const std::string& path, Outcome& value) {
    for (const Outcome outcome : {Outcome::kPassed, Outcome::kFailed,
                                  Outcome::kMistrusted, Outcome::kSkipped})
      if (json == Json(ToString(outcome))) {
        value = outcome;
        return;
      }
    throw Wrong(path, "\"passed\", \"failed\", \"mistrusted\" or \"skipped\"",
                json);
  }
  static void Read(const Json& json, const std::string& path, Times& value) {
    value = TimesOf(json, path);
  }
  static void Read(const Json& json, const std::string& path,
                   ComparedRows& value) {
    value.all = json == Json("all");
    if (!value.all) Read(json, path, value.count);
  }
  static void Read(const Json& json, const std::string& path, Setting& value) {
    const auto is_integer = [](const Json& entry) {
      return entry.is_number_integer();
    };
    if (json.is_boolean())
      value = json.get<bool>();
    else if (json.is_number_integer())
      value = json.get<int64_t>();
    else if (json.is_number())
      value = json.get<double>();
    else if (json.is_string())
      value = json.get<std::string>();
    else if (json.is_array() && std::ranges::all_of(json, is_integer))
      value = json.get<std::vector<int64_t>>();
    else
      Read(json, path, value.emplace<std::vector<std::string>>());
  }
  template <typename T>
  static void Read(const Json& json, const std::string& path,
                   std::optional<T>& value) {
    Read(json, path, value.emplace());
  }
  // Null is a value of its own: a device that does not tell its state.
  static void Read(const Json& json, const std::string& path,
                   std::optional<std::optional<DeviceState>>& value) {
    value.emplace();
    if (!json.is_null()) Read(json, path, value->emplace());
  }
  template <typename T>
  static void Read(const Json& json, const std::string& path,
                   std::vector<T>& value) {
    if (!json.is_array()) throw Wrong(path, "a list", json);
    for (const Json& entry : json) Read(entry, path, value.emplace_back());
  }
  template <typename T>
  static void Read(const Json& json, const std::string& path, Named<T>& value) {
    if (!json.is_object()) throw Wrong(path, "an object", json);
    for (const auto& [name, entry] : json.items())
      Read(entry, path + ": " + name, value.emplace_back(name, T()).second);
  }
  static void Read(const Json& json, const std::string& path,
                   HasFields auto& value) {
    FieldReader reader(json, path);
    Visit(value, reader);
    reader.RefuseUnknown();
  }

  const Json& json_;
  const std::string where_;
  std::set<std::string> known_;
};

// ---- the schema ------------------------------------------------------------

class FieldLister {
 public:
  FieldLister(std::string prefix, bool required)
      : prefix_(std::move(prefix)), required_(required) {}

  template <typename T>
  void operator()(const char* name, const T& value, Empty empty) {
    const std::string path = prefix_ + name;
    fields_.push_back({path, required_ && empty != Empty::kOmitted,
                       empty == Empty::kNull || CanBeNull(value)});
    Inside(path, value);
  }
  template <typename T>
  void Group(const std::optional<T>&) {
    FieldLister group(prefix_, false);
    T member;
    Visit(member, group);
    Append(group);
  }

  std::vector<RecordField> Take() { return std::move(fields_); }

 private:
  template <typename T>
  static bool CanBeNull(const std::optional<std::optional<T>>&) {
    return true;
  }
  static bool CanBeNull(const auto&) { return false; }

  template <typename T>
  void Inside(const std::string& path, const std::optional<T>&) {
    Inside(path, T());
  }
  void Inside(const std::string& path, const HasFields auto& value) {
    FieldLister lister(path + ".", true);
    Visit(value, lister);
    Append(lister);
  }
  void Inside(const std::string&, const auto&) {}

  void Append(FieldLister& other) {
    const std::vector<RecordField> more = other.Take();
    fields_.insert(fields_.end(), more.begin(), more.end());
  }

  std::string prefix_;
  bool required_;
  std::vector<RecordField> fields_;
};

// ---- making ----------------------------------------------------------------

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

std::string Record::ParamsText() const {
  return FieldWriter::JsonOf(params).dump();
}

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

Json ToJson(const RecordCheck& check) { return FieldWriter::JsonOf(check); }
Json ToJson(const Record& record) { return FieldWriter::JsonOf(record); }

std::vector<Json> ToJson(const std::vector<Record>& records) {
  std::vector<Json> list;
  for (const Record& record : records) list.push_back(ToJson(record));
  return list;
}

Record RecordOf(const Json& json, const std::string& where) {
  Record record;
  FieldReader reader(json, where);
  Visit(record, reader);
  reader.RefuseUnknown();
  if (record.length_axes.empty())
    throw InvalidInput(where + ": length_axes", "names of sizes", "none");
  std::vector<std::string> extents = record.length_axes;
  extents.insert(extents.end(), {"n_q", "n_k"});
  for (const std::string& name : extents)
    if (!std::ranges::count(record.size, name, NameOf<int64_t>))
      throw InvalidInput(where + ": size", "an extent " + name, "none");
  return record;
}

std::vector<RecordField> FieldsOfRecords() {
  FieldLister lister("", true);
  const Record record;
  Visit(record, lister);
  return lister.Take();
}

}  // namespace subquad
