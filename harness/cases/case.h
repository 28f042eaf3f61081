// A generated case: the integers and names that determine one problem and all
// of its values. Its id is text from which it can be repeated anywhere:
//   toeplitz_1d:n_q=4096,n_k=4096,e=64,causal=0,scalar=float32,seed=7
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reference/base/operator.h"

namespace subquad {

struct CaseFolder;

struct Case {
  const Operator* op = nullptr;
  Dims sizes;
  Params params;
  LeadingAxes leading;
  bool backward = false;
  std::vector<std::string> with;  // optional inputs that are present
  // The kind of its values (hard_inputs.h), or a folder with some of its
  // tensors.
  std::string input = "normal";
  std::shared_ptr<const CaseFolder>
      source;                      // the folder; null if there is none
  std::string omega = "gaussian";  // the sampler of projections (omega.h)
  Scalar scalar = Scalar::kFloat32;
  uint64_t seed = 1;

  // Returns the id, in which n_q = n_k is printed as n.
  std::string Id() const;

  // Returns what the values depend on besides the seed. The scalar type is not
  // part of it, so that all types round the same draws.
  std::string DrawId() const;

  // Returns the number of queries (rows of the output).
  int64_t Tokens() const;
};

// Requested values by name, as in an id or on a command line.
struct CaseRequest {
  const Operator* op = nullptr;
  std::optional<int64_t> n;  // every size that follows n
  std::vector<std::pair<std::string, std::string>> values;  // name, text
  std::string input = "normal";
  Scalar scalar = Scalar::kFloat32;
  uint64_t seed = 1;
};

// A setting of generated cases that every operator has. It is named like a
// parameter, in ids and on the command line.
struct CaseSetting {
  std::string name, meaning;
  bool has_colons = false;  // its values are texts with colons, not ranges
};
const std::vector<CaseSetting>& CaseSettings();

// Makes a case: sorts the values into sizes and parameters, fills in defaults
// and checks all of them. If the input is a folder, it supplies the sizes,
// heads and optional inputs that the request leaves open. Throws InvalidInput
// that names the value.
Case MakeCase(const CaseRequest& request);

// Throws InvalidInput if a request names a length and an extent of an image
// with another number of pixels.
void CheckImageSize(const CaseRequest& request, const Case& test_case);

// Reads an id. MakeCase(ParseCaseId(id)).Id() == id for every printed id.
CaseRequest ParseCaseId(const std::string& id);

// Returns the problem of a case, with its sizes and parameters checked.
Problem ProblemOf(const Case& test_case);

// Formats the leading axes of single tensors as in an id: "k:2+v:2".
std::string LeadingText(const std::map<std::string, Shape>& axes);

// Formats the axes that single tensors share as in an id:
// "mask:queries+pair_bias:keys".
std::string SharedText(
    const std::map<std::string, LeadingAxes::Shared>& shared);

// Parses a value by the parameter's type: "0.25" is a number, "elu1" a text,
// "0+5+36" a list.
ParamValue ParseParam(const ParamRule& rule, const std::string& text);

}  // namespace subquad
