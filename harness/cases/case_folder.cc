#include "harness/cases/case_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/base/json_text.h"
#include "harness/base/npy.h"
#include "harness/registry/registry.h"

namespace subquad {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// Only lists of positions may be long. The parsed document is about twenty
// times as large as its text.
constexpr uintmax_t kLargestJson = 16 << 20;

// Shortens text for a message.
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

// Tells whether a path is inside the folder. The folder itself may be a link,
// but links in it may not lead out.
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
    throw InvalidInput("case.json", "a file in the case folder",
                       "no such file");
  if (!IsInside(folder, path))
    throw InvalidInput("case.json", "a file in the case folder",
                       "a link that leads out of it");
  if (!fs::is_regular_file(path, error))
    throw InvalidInput("case.json", "a regular file", "another kind of file");
  const uintmax_t size = fs::file_size(path, error);
  if (error || size > kLargestJson)
    throw InvalidInput("case.json", "at most 16 MiB", "more");
  std::ifstream stream(path, std::ios::binary);
  std::string text(size, '\0');
  if (!stream.read(text.data(), static_cast<std::streamsize>(size)))
    throw InvalidInput("case.json", "a readable file", "one that is not");
  return text;
}

const Json& Field(const Json& json, const std::string& name, Json::value_t type,
                  const std::string& expected) {
  const auto position = json.find(name);
  if (position == json.end())
    throw InvalidInput("case.json: " + name, expected, "none");
  if (position->type() != type)
    throw InvalidInput("case.json: " + name, expected, TypeOf(*position));
  return *position;
}

int64_t IntegerOf(const std::string& name, const Json& json) {
  if (json.is_number_unsigned() &&
      json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    throw InvalidInput("parameter " + name, "integers of at most 64 bits",
                       json.dump());
  return json.get<int64_t>();
}

bool IsListOfIntegers(const Json& json) {
  return json.is_array() && std::ranges::all_of(json, [](const Json& entry) {
           return entry.is_number_integer();
         });
}

// Returns the value of a parameter. A value that no parameter can have, such as
// null or [0.5], is returned as its text: the check against the operator's rule
// then rejects it and knows what to expect instead.
ParamValue ParamOf(const std::string& name, const Json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_number()) return IntegerOf(name, json);
  if (json.is_string()) return json.get<std::string>();
  if (IsListOfIntegers(json)) {
    IntegerList list;
    for (const Json& entry : json) list.push_back(IntegerOf(name, entry));
    return list;
  }
  if (!json.is_array() || !std::ranges::all_of(json, IsListOfIntegers))
    return Shortened(json.dump());
  IntegerTable rows;
  for (const Json& row : json) {
    rows.emplace_back();
    for (const Json& entry : row) rows.back().push_back(IntegerOf(name, entry));
  }
  return rows;
}

// Returns the files by the names of their tensors.
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

// An array that a field of case.json names. Its header is read first, so that
// shapes are checked before gigabytes of values are read.
struct NamedArray {
  std::string field;
  fs::path path;
  NpyTypes types = NpyTypes::kFloats;
  Shape shape;
  bool is_float32 = false;
};

// Finds the file of an array. It must be inside the folder, also through links.
NamedArray FindArray(const fs::path& folder, const std::string& field,
                     const std::string& text,
                     NpyTypes types = NpyTypes::kFloats) {
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
    const NpyArray header = ReadNpyHeader(real, types);
    return {field, real, types, header.shape, header.is_float32};
  } catch (const InvalidInput& problem) {
    throw problem.In(field);
  }
}

// Throws for an array that does not have the shape of this output.
void CheckShape(const NamedArray& array, const Shape& shape) {
  if (array.shape != shape)
    throw InvalidInput(array.field, "the shape " + ToString(shape),
                       ToString(array.shape));
}

std::vector<double> NumbersOf(const NamedArray& named) {
  try {
    NpyArray array = ReadNpy(named.path, named.types);
    if (array.shape != named.shape || array.is_float32 != named.is_float32)
      throw InvalidInput(named.path.filename().string(),
                         "the array whose header was just read", "another one");
    return std::move(array.values);
  } catch (const InvalidInput& problem) {
    throw problem.In(named.field);
  }
}

// The arrays by name.
using NamedArrays = std::map<std::string, NamedArray>;

NamedArrays FindInputs(const fs::path& folder, const CaseText& text,
                       CaseFolder& result) {
  // Names are checked before any file is read, so that a list of a thousand
  // names costs nothing.
  std::vector<std::string> names;
  for (const auto& [name, file] : text.inputs) names.push_back(name);
  CheckInputNames(*text.op, text.params, names);
  const Signature signature =
      text.op->SignatureFor(text.params, text.inputs.contains("grad"));
  NamedArrays arrays;
  std::vector<GivenShape> shapes;
  for (const auto& [name, file] : text.inputs) {
    const int rule = IndexOf(signature.inputs, name);
    arrays[name] =
        FindArray(folder, "input " + name, file,
                  signature.inputs[static_cast<size_t>(rule)].zero_or_one
                      ? NpyTypes::kNumbers
                      : NpyTypes::kFloats);
    shapes.push_back({name, arrays[name].shape});
  }
  const auto has_expected = [&](const std::string& name) {
    return text.expected.contains(name);
  };
  result.problem =
      ResolveProblem(*text.op, text.params, Scalar::kFloat64, shapes, {},
                     OptionalOutputs(signature, has_expected));
  return arrays;
}

NamedArrays FindExpected(const fs::path& folder,
                         const std::map<std::string, std::string>& files,
                         const Problem& problem) {
  std::vector<std::string> names;
  for (const TensorRule& rule : problem.outputs) names.push_back(rule.name);
  if (files.empty())
    throw InvalidInput(
        "case.json: expected",
        fmt::format("at least one of the outputs {}", fmt::join(names, ", ")),
        "none");
  for (const auto& [name, file] : files)
    if (IndexOf(problem.outputs, name) < 0)
      throw UnknownName("case.json: output", names, Shortened(name));
  NamedArrays arrays;
  for (const auto& [name, file] : files) {
    arrays[name] = FindArray(folder, "output " + name, file);
    CheckShape(
        arrays[name],
        problem.OutputShape(static_cast<size_t>(problem.OutputIndex(name))));
  }
  return arrays;
}

void ReadInputs(const NamedArrays& arrays, CaseFolder& result) {
  const Problem& problem = result.problem;
  for (size_t i = 0; i < problem.inputs.size(); ++i) {
    const TensorRule& rule = problem.inputs[i];
    const NamedArray& named = arrays.at(rule.name);
    const bool is_rounded = named.is_float32 && !rule.zero_or_one;
    Tensor tensor{rule.name, named.shape, problem.InputSlices(i),
                  NumbersOf(named),
                  is_rounded ? Scalar::kFloat32 : Scalar::kFloat64};
    CheckNumbersOf(rule, tensor);
    result.inputs.tensors.push_back(std::move(tensor));
    result.has_float32 = result.has_float32 || is_rounded;
  }
  problem.op->CheckNumbers(problem, result.inputs);
}

void ReadExpected(const NamedArrays& arrays, CaseFolder& result) {
  for (const auto& [name, named] : arrays) {
    TensorRule rule =
        result.problem
            .outputs[static_cast<size_t>(result.problem.OutputIndex(name))];
    rule.name = "output " + name;
    Tensor tensor{name, named.shape, {}, NumbersOf(named)};
    CheckNumbersOf(rule, tensor);
    result.expected.push_back(
        {name, named.shape, std::move(tensor.values), named.is_float32});
    result.has_float32 = result.has_float32 || named.is_float32;
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
  const Json json = ParseJsonText<Json>("case.json", text);
  if (!json.is_object())
    throw InvalidInput("case.json", "an object", TypeOf(json));
  static const std::vector<std::string> kFields = {
      "format",   "operator", "params",        "inputs",
      "expected", "source",   "expected_error"};
  for (const auto& [name, value] : json.items())
    if (std::ranges::find(kFields, name) == kFields.end())
      throw UnknownName("case.json: field", kFields, Shortened(name));
  const auto text_of = [&](const char* name, const char* expected) {
    return Field(json, name, Json::value_t::string, expected)
        .get<std::string>();
  };
  const std::string format = text_of("format", "'case/1'");
  if (format != "case/1")
    throw InvalidInput("case.json: format", "'case/1'", Quoted(format));
  CaseText result;
  result.source = text_of("source", "a string");
  const std::string op = text_of("operator", "the name of an operator");
  try {
    result.op = &FindOperator(Shortened(op));
  } catch (const InvalidInput& problem) {
    throw problem.In("case.json");
  }
  for (const auto& [name, value] :
       Field(json, "params", Json::value_t::object, "an object").items())
    result.params.Set(name, ParamOf(Shortened(name), value));
  result.inputs = FilesOf(json, "inputs");
  result.expected = FilesOf(json, "expected");
  if (const auto error = json.find("expected_error"); error != json.end()) {
    // An error as large as the values themselves would accept any output.
    if (!error->is_number() || !(error->get<double>() >= 0) ||
        !(error->get<double>() < 1))
      throw InvalidInput("case.json: expected_error",
                         "a number from 0 to below 1", TypeOf(*error));
    result.expected_error = error->get<double>();
  }
  return result;
}

CaseFolder ReadCaseFolder(const fs::path& folder) {
  // Resolves paths such as "." and "case/" to the name of the folder.
  std::error_code error;
  fs::path plain = fs::absolute(folder, error).lexically_normal();
  if (!plain.has_filename()) plain = plain.parent_path();
  CaseFolder result;
  result.name = plain.filename().string();
  plain = folder.lexically_normal();
  if (!plain.has_filename()) plain = plain.parent_path();
  result.path = plain.string();
  try {
    if (!fs::is_directory(folder, error))
      throw InvalidInput(
          std::string("expected a folder with case.json, found ") +
          (fs::exists(folder, error) ? "a file" : "nothing at this path"));
    const CaseText text = ParseCaseText(ReadText(folder));
    result.op = text.op;
    result.source = text.source;
    result.expected_error = text.expected_error;
    const NamedArrays inputs = FindInputs(folder, text, result);
    const NamedArrays expected =
        FindExpected(folder, text.expected, result.problem);
    ReadInputs(inputs, result);
    ReadExpected(expected, result);
    result.digest = DigestOf(result.inputs);
    return result;
  } catch (const InvalidInput& problem) {
    throw problem.In("case " + result.path);
  }
}

}  // namespace subquad
