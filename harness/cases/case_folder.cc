#include "harness/cases/case_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/base/npy.h"
#include "harness/base/registry.h"

namespace subquad {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// Lists of positions may be long; nothing else is. What a parser makes of a
// text is some twenty times as large.
constexpr uintmax_t kLargestJson = 16 << 20;
constexpr int kDeepestJson = 8;

// What a message can hold.
std::string Shortened(const std::string& text) {
  constexpr size_t kLongest = 100;
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "..";
}
std::string Quoted(const std::string& text) {
  return "'" + Shortened(text) + "'";
}

std::string TypeOf(const Json& json) {
  if (json.is_string()) return "the string " + Quoted(json.get<std::string>());
  return json.is_object() || json.is_array()
             ? "an " + std::string(json.type_name())
             : json.dump();
}

// The folder itself may be a link; nothing in it may lead out.
bool IsInside(const fs::path& folder, const fs::path& real) {
  std::error_code error;
  const fs::path home = fs::canonical(folder, error);
  if (error) return false;
  const auto [end, rest] =
      std::mismatch(home.begin(), home.end(), real.begin(), real.end());
  return end == home.end();
}

std::string ReadText(const fs::path& folder) {
  std::error_code error;
  const fs::path path = fs::canonical(folder / "case.json", error);
  if (error)
    throw InvalidInput("case.json", "a file in the case folder", "none");
  if (!IsInside(folder, path))
    throw InvalidInput("case.json", "a file in the case folder",
                       "a link that leads out of it");
  if (!fs::is_regular_file(path, error))
    throw InvalidInput("case.json", "a regular file", "something else");
  const uintmax_t size = fs::file_size(path, error);
  if (error || size > kLargestJson)
    throw InvalidInput("case.json", "at most 16 MiB", "more");
  std::ifstream stream(path, std::ios::binary);
  std::string text(size, '\0');
  if (!stream.read(text.data(), static_cast<std::streamsize>(size)))
    throw InvalidInput("case.json", "a file that can be read",
                       "one that cannot");
  return text;
}

Json ParseJson(const std::string& text) {
  // A repeated key would silently lose one of its values.
  std::vector<std::set<std::string>> keys;
  const auto reject_duplicates = [&](int depth, Json::parse_event_t event,
                                     Json& parsed) {
    if (depth > kDeepestJson)
      throw InvalidInput("case.json",
                         fmt::format("at most {} levels", kDeepestJson),
                         "deeper nesting");
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key &&
        !keys.back().insert(parsed.get<std::string>()).second)
      throw InvalidInput("case.json: " + Shortened(parsed.get<std::string>()),
                         "one value", "two");
    return true;
  };
  try {
    return Json::parse(text, reject_duplicates);
  } catch (const Json::exception& exception) {
    throw InvalidInput("case.json: not valid JSON: " +
                       std::string(exception.what()).substr(0, 300));
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
    throw InvalidInput("parameter " + name, "integers", TypeOf(json));
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

// Names of tensors and of their files.
std::map<std::string, std::string> FilesOf(const Json& json,
                                           const std::string& field) {
  std::map<std::string, std::string> files;
  const Json& object =
      Field(json, field, Json::value_t::object, "an object of file names");
  for (const auto& [name, file] : object.items()) {
    if (!file.is_string())
      throw InvalidInput("case.json: " + field + ": " + Shortened(name),
                         "a file name", TypeOf(file));
    files[name] = file.get<std::string>();
  }
  return files;
}

// The file may not leave the folder, through links neither.
NpyArray ReadArray(const fs::path& folder, const std::string& field,
                   const std::string& text) {
  const std::string subject = "case.json: " + field;
  const fs::path path = text;
  const bool climbs = std::ranges::any_of(
      path, [](const fs::path& part) { return part == ".."; });
  if (text.empty() || text.find('\0') != std::string::npos ||
      path.is_absolute() || climbs)
    throw InvalidInput(subject, "a file in the case folder", Quoted(text));
  std::error_code error;
  const fs::path real = fs::canonical(folder / path, error);
  if (error)
    throw InvalidInput(subject, "a file in the case folder",
                       Quoted(text) + ", which does not exist");
  if (!IsInside(folder, real))
    throw InvalidInput(subject, "a file in the case folder",
                       Quoted(text) + ", which leads out of it");
  try {
    return ReadNpy(real);
  } catch (const InvalidInput& problem) {
    throw problem.In(field);
  }
}

void ReadInputs(const fs::path& folder, CaseText text, CaseFolder& result) {
  // Before any file is read: a list of a thousand names is refused, not read.
  std::vector<std::string> names;
  for (const auto& [name, file] : text.inputs) names.push_back(name);
  CheckInputNames(*text.op, text.params, names);
  std::vector<GivenShape> given;
  std::vector<Tensor> tensors;
  for (const auto& [name, file] : text.inputs) {
    NpyArray array = ReadArray(folder, "inputs: " + name, file);
    given.push_back({name, array.shape});
    tensors.push_back({name, array.shape, {}, std::move(array.values)});
  }
  result.problem =
      ResolveProblem(*text.op, std::move(text.params), Scalar::kFloat64, given);
  for (size_t i = 0; i < result.problem.inputs.size(); ++i) {
    const TensorRule& rule = result.problem.inputs[i];
    auto found = std::ranges::find(tensors, rule.name, &Tensor::name);
    CheckFinite(rule, *found);
    found->slices = result.problem.InputSlices(i);
    result.inputs.tensors.push_back(std::move(*found));
  }
}

void ReadExpected(const fs::path& folder,
                  const std::map<std::string, std::string>& files,
                  CaseFolder& result) {
  const std::vector<TensorRule>& outputs = result.problem.outputs;
  std::string names;
  for (const TensorRule& rule : outputs)
    names += (names.empty() ? "" : ", ") + rule.name;
  if (files.empty())
    throw InvalidInput("case.json: expected", "at least one of " + names,
                       "none");
  for (const auto& [name, file] : files)
    if (std::ranges::find(outputs, name, &TensorRule::name) == outputs.end())
      throw InvalidInput("case.json: expected: " + Shortened(name),
                         "one of " + names, "an unknown output");
  for (const auto& [name, file] : files) {
    const size_t index = static_cast<size_t>(result.problem.OutputIndex(name));
    NpyArray array = ReadArray(folder, "expected: " + name, file);
    const Shape shape = result.problem.OutputShape(index);
    if (array.shape != shape)
      throw InvalidInput("expected: " + name, ToString(shape),
                         ToString(array.shape));
    TensorRule finite = outputs[index];
    finite.name = "expected: " + name;
    finite.may_be_minus_infinity = false;
    Tensor tensor{name, array.shape, {}, std::move(array.values)};
    CheckFinite(finite, tensor);
    result.expected.push_back(
        {name, shape, std::move(tensor.values), array.is_float32});
  }
}

std::string DigestOf(const Inputs& inputs) {
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&hash](const void* data, size_t count) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (size_t i = 0; i < count; ++i) hash = (hash ^ bytes[i]) * 0x100000001b3;
  };
  for (const Tensor& tensor : inputs.tensors) {
    add(tensor.name.data(), tensor.name.size());
    add(tensor.shape.data(), tensor.shape.size() * sizeof(tensor.shape[0]));
    add(tensor.values.data(), tensor.values.size() * sizeof(double));
  }
  return fmt::format("{:016x}", hash);
}

}  // namespace

CaseText ParseCaseText(const std::string& text) {
  const Json json = ParseJson(text);
  if (!json.is_object())
    throw InvalidInput("case.json", "an object", TypeOf(json));
  static const std::set<std::string> kFields = {"format", "operator", "params",
                                                "inputs", "expected", "source"};
  for (const auto& [name, value] : json.items())
    if (!kFields.contains(name))
      throw InvalidInput("case.json: " + Shortened(name),
                         "format, operator, params, inputs, expected or source",
                         "an unknown field");
  const auto text_of = [&](const char* name, const char* expected) {
    return Field(json, name, Json::value_t::string, expected)
        .get<std::string>();
  };
  const std::string format = text_of("format", "'case/1'");
  if (format != "case/1")
    throw InvalidInput("case.json: format", "'case/1'", Quoted(format));
  CaseText result;
  result.source = text_of("source", "a string");
  try {
    result.op = &FindOperator(
        Shortened(text_of("operator", "the name of an operator")));
  } catch (const InvalidInput& problem) {
    throw problem.In("case.json");
  }
  for (const auto& [name, value] :
       Field(json, "params", Json::value_t::object, "an object").items())
    result.params.Set(name, ParamOf(Shortened(name), value));
  result.inputs = FilesOf(json, "inputs");
  result.expected = FilesOf(json, "expected");
  return result;
}

CaseFolder ReadCaseFolder(const fs::path& folder) {
  // "." and "case/" have names too.
  std::error_code error;
  fs::path plain = fs::absolute(folder, error).lexically_normal();
  if (!plain.has_filename()) plain = plain.parent_path();
  CaseFolder result;
  result.name = plain.filename().string();
  try {
    if (!fs::is_directory(folder, error))
      throw InvalidInput("folder", "a case folder",
                         fs::exists(folder, error) ? "something else" : "none");
    const CaseText text = ParseCaseText(ReadText(folder));
    result.op = text.op;
    result.source = text.source;
    ReadInputs(folder, text, result);
    ReadExpected(folder, text.expected, result);
    result.digest = DigestOf(result.inputs);
    return result;
  } catch (const InvalidInput& problem) {
    throw problem.In("case " + result.name);
  }
}

}  // namespace subquad
