#include "harness/cases/write_case_folder.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/base/npy.h"
#include "harness/base/output_file.h"
#include "reference/base/operator.h"

namespace subquad {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

bool AreFloat32(const std::vector<double>& values) {
  return std::ranges::all_of(values, [](double value) {
    return static_cast<double>(static_cast<float>(value)) == value;
  });
}

Json JsonOf(const Params& params) {
  Json json = Json::object();
  for (const auto& [name, value] : params.values())
    std::visit([&](const auto& item) { json[name] = item; }, value);
  return json;
}

}  // namespace

void WriteCaseFolder(const fs::path& folder, const Problem& problem,
                     const Inputs& inputs,
                     const std::vector<ExpectedTensor>& expected,
                     const std::string& source, double expected_error) {
  std::error_code error;
  if (folder.empty() || fs::exists(folder, error))
    throw InvalidInput(
        "folder", "the name of a folder to create",
        folder.empty()
            ? "an empty name"
            : folder.string() + ", which exists; choose another name");
  fs::create_directories(folder, error);
  if (error)
    throw InvalidInput("cannot create the folder " + folder.string() + ": " +
                       error.message());
  Json json = {{"format", "case/1"},
               {"operator", std::string(problem.op->description().id)},
               {"params", JsonOf(problem.params)},
               {"inputs", Json::object()},
               {"expected", Json::object()},
               {"source", source}};
  if (expected_error > 0) json["expected_error"] = expected_error;
  for (const Tensor& tensor : inputs.tensors) {
    json["inputs"][tensor.name] = tensor.name + ".npy";
    WriteNpy(folder / (tensor.name + ".npy"), tensor.shape, tensor.values,
             AreFloat32(tensor.values));
  }
  for (const ExpectedTensor& tensor : expected) {
    const std::string file = "expected_" + tensor.name + ".npy";
    json["expected"][tensor.name] = file;
    WriteNpy(folder / file, tensor.shape, tensor.values, tensor.is_float32);
  }
  // case.json is written last: without it, a folder is not a case.
  WriteFileAtomically(folder / "case.json", json.dump(1) + "\n");
}

}  // namespace subquad
