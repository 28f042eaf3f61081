#include "harness/case_folder.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/npy.h"
#include "harness/registry.h"

namespace subquad {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// Lists of positions may be long; nothing else is.
constexpr uintmax_t kLargestJson = 64 << 20;

std::string TypeOf(const Json& json) {
  if (json.is_string()) return "the string '" + json.get<std::string>() + "'";
  return json.is_object() || json.is_array()
             ? "an " + std::string(json.type_name())
             : json.dump();
}

Json ReadJson(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error))
    throw InvalidInput("case.json", "a regular file", "none");
  if (fs::file_size(path, error) > kLargestJson || error)
    throw InvalidInput("case.json", "at most 64 MiB", "more");
  std::ifstream stream(path);
  if (!stream)
    throw InvalidInput("case.json", "a file that can be read",
                       "one that cannot");
  // A key that stands twice would silently lose one of its values.
  std::vector<std::set<std::string>> keys;
  const auto reject_duplicates = [&](int, Json::parse_event_t event,
                                     Json& parsed) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key &&
        !keys.back().insert(parsed.get<std::string>()).second)
      throw InvalidInput("case.json: " + parsed.get<std::string>(), "one value",
                         "two");
    return true;
  };
  try {
    return Json::parse(stream, reject_duplicates);
  } catch (const Json::exception& exception) {
    std::string what = exception.what();
    std::ranges::replace(what, '\n', ' ');
    throw InvalidInput("case.json: not valid JSON: " + what);
  }
}

const Json& Field(const Json& json, const std::string& name, Json::value_t type,
                  const std::string& expected) {
  const auto found = json.find(name);
  if (found == json.end())
    throw InvalidInput("case.json: " + name, expected, "none");
  if (found->type() != type)
    throw InvalidInput("case.json: " + name, expected, TypeOf(*found));
  return *found;
}

int64_t IntegerOf(const std::string& name, const Json& json) {
  if (!json.is_number_integer() ||
      (json.is_number_unsigned() &&
       json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)))
    throw InvalidInput("parameter " + name, "integers", json.dump());
  return json.get<int64_t>();
}

ParamValue ParamOf(const std::string& name, const Json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_number()) return IntegerOf(name, json);
  if (json.is_string()) return json.get<std::string>();
  if (!json.is_array())
    throw InvalidInput("parameter " + name,
                       "true, false, a number, a string or a list",
                       json.is_null() ? "null" : TypeOf(json));
  const bool table = !json.empty() && json.front().is_array();
  if (!table) {
    IntegerList list;
    for (const Json& entry : json) list.push_back(IntegerOf(name, entry));
    return list;
  }
  IntegerTable rows;
  for (const Json& row : json) {
    if (!row.is_array())
      throw InvalidInput("parameter " + name, "a list of lists of integers",
                         TypeOf(row));
    rows.emplace_back();
    for (const Json& entry : row) rows.back().push_back(IntegerOf(name, entry));
  }
  return rows;
}

// The file that a field names; it may not leave the folder, through links
// neither.
fs::path FileOf(const fs::path& folder, const std::string& field,
                const Json& json) {
  if (!json.is_string())
    throw InvalidInput("case.json: " + field, "a file name", TypeOf(json));
  const std::string text = json.get<std::string>();
  const fs::path path = text;
  const bool climbs = std::ranges::any_of(
      path, [](const fs::path& part) { return part == ".."; });
  if (text.empty() || text.find('\0') != std::string::npos ||
      path.is_absolute() || climbs)
    throw InvalidInput("case.json: " + field, "a file in the case folder",
                       "'" + text + "'");
  std::error_code error;
  const fs::path real = fs::canonical(folder / path, error);
  if (error)
    throw InvalidInput("case.json: " + field, "a file in the case folder",
                       "'" + text + "', which is not there");
  const fs::path home = fs::canonical(folder, error);
  const auto [end, rest] =
      std::mismatch(home.begin(), home.end(), real.begin(), real.end());
  if (end != home.end())
    throw InvalidInput("case.json: " + field, "a file in the case folder",
                       "'" + text + "', which leads out of it");
  return real;
}

CaseFolder Read(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    throw InvalidInput("folder", "a case folder", "none");
  const Json json = ReadJson(folder / "case.json");
  if (!json.is_object())
    throw InvalidInput("case.json", "an object", TypeOf(json));
  static const std::set<std::string> kFields = {"format", "operator", "params",
                                                "inputs", "expected", "source"};
  for (const auto& [name, value] : json.items())
    if (!kFields.contains(name))
      throw InvalidInput("case.json: " + name,
                         "format, operator, params, inputs, expected or source",
                         "an unknown field");
  const auto format = Field(json, "format", Json::value_t::string, "'case/1'")
                          .get<std::string>();
  if (format != "case/1")
    throw InvalidInput("case.json: format", "'case/1'", "'" + format + "'");

  CaseFolder result;
  if (json.contains("source"))
    result.source = Field(json, "source", Json::value_t::string, "a string")
                        .get<std::string>();
  result.op = &FindOperator(
      Field(json, "operator", Json::value_t::string, "the name of an operator")
          .get<std::string>());
  Params params;
  for (const auto& [name, value] :
       Field(json, "params", Json::value_t::object, "an object").items())
    params.Set(name, ParamOf(name, value));

  std::vector<GivenShape> given;
  const Json& inputs =
      Field(json, "inputs", Json::value_t::object, "an object of file names");
  std::vector<Tensor> tensors;
  for (const auto& [name, file] : inputs.items()) {
    NpyArray array = ReadNpy(FileOf(folder, "inputs: " + name, file));
    given.push_back({name, array.shape});
    tensors.push_back({name, array.shape, 0, std::move(array.values)});
  }
  result.problem =
      ResolveProblem(*result.op, std::move(params), Scalar::kFloat64, given);
  for (size_t i = 0; i < result.problem.inputs.size(); ++i) {
    const TensorRule& rule = result.problem.inputs[i];
    auto found = std::ranges::find(tensors, rule.name, &Tensor::name);
    CheckFinite(rule, *found);
    if (result.problem.input_per_head[i])
      found->head_stride = ElementCount(found->shape) / result.problem.heads;
    result.inputs.tensors.push_back(std::move(*found));
  }

  const Json& expected =
      Field(json, "expected", Json::value_t::object, "an object of file names");
  if (expected.empty())
    throw InvalidInput("case.json: expected", "at least one output", "none");
  for (const auto& [name, file] : expected.items()) {
    std::string names;
    for (const TensorRule& rule : result.problem.outputs)
      names += (names.empty() ? "" : ", ") + rule.name;
    const auto rule =
        std::ranges::find(result.problem.outputs, name, &TensorRule::name);
    if (rule == result.problem.outputs.end())
      throw InvalidInput("case.json: expected: " + name, "one of " + names,
                         "a tensor that is not an output here");
    NpyArray array = ReadNpy(FileOf(folder, "expected: " + name, file));
    const Shape shape = result.problem.OutputShape(
        static_cast<size_t>(result.problem.OutputIndex(name)));
    if (array.shape != shape)
      throw InvalidInput("expected: " + name, ToString(shape),
                         ToString(array.shape));
    TensorRule finite = *rule;
    finite.name = "expected: " + name;
    finite.may_be_minus_infinity = false;
    Tensor tensor{name, array.shape, 0, std::move(array.values)};
    CheckFinite(finite, tensor);
    result.expected.push_back(
        {name, shape, std::move(tensor.values), array.is_float32});
  }
  return result;
}

}  // namespace

CaseFolder ReadCaseFolder(const fs::path& folder) {
  fs::path plain = folder;
  if (!plain.has_filename()) plain = plain.parent_path();
  const std::string name = plain.filename().string();
  try {
    CaseFolder result = Read(folder);
    result.name = name;
    return result;
  } catch (const InvalidInput& problem) {
    throw problem.In("case " + name);
  }
}

}  // namespace subquad
