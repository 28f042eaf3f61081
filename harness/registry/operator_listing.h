// Describes an operator as data, with everything that a case for it needs:
// an entry of `subquad list --json` (reports/files/list.schema.json).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/json_fields.h"
#include "reference/base/operator.h"
#include "reference/contract/implementation.h"

namespace subquad {

// The choices under which an entry exists: each named parameter has one of the
// values. Empty: always.
using Conditions = Named<std::vector<std::string>>;

struct ListedParam {
  std::string name;
  ParamType type = ParamType::kFlag;
  bool required = false;
  std::string meaning;
  // Limits of an integer or of the integers in a list; the smallest value of a
  // number that may be zero.
  std::optional<int64_t> min, max;
  std::optional<int64_t> above;  // exclusive lower limit of a number
  std::vector<std::string> choices;
  std::string generated;            // the choice that generated cases make
  std::string default_value;        // may be a formula: "1/sqrt(d)"
  std::string of_input;             // the optional input that it describes
  std::optional<bool> may_be_list;  // true or nothing: of an integer
  std::vector<std::string> together_with;
  Conditions when;

  bool operator==(const ListedParam&) const = default;
};

// A size in generated cases: "n", or a number.
struct GeneratedSize {
  bool follows_n = false;
  int64_t value = 0;

  std::string Text() const { return follows_n ? "n" : std::to_string(value); }
  bool operator==(const GeneratedSize&) const = default;
};

struct ListedSize {
  std::string name, meaning;
  int64_t min = 1;
  GeneratedSize generated;
  std::string of_input;  // the optional input that alone has it; empty: none
  Conditions when;

  bool operator==(const ListedSize&) const = default;
};

// Properties of inputs and of optional outputs.
struct ListedInput {
  bool required = true, minus_infinity = false;
  // The numbers are 0 or 1, or booleans; an extent of 1 in place of either is
  // shared.
  bool zero_or_one = false, per_pair = false;
  std::vector<std::string> first_offsets;  // by axis that runs over offsets

  bool operator==(const ListedInput&) const = default;
};

struct ListedTensor {
  std::string name;
  std::vector<std::string> shape;
  std::optional<ListedInput> input;  // absent for outputs that always exist
  Conditions when;

  bool operator==(const ListedTensor&) const = default;
};

struct ListedImplementation {
  std::string id;
  Backend backend = Backend::kCpu;
  std::vector<std::string> scalars;
  std::string time, memory;
  bool backward = false;
  std::string what, source;
  std::string why_no_backward;  // empty if it has one
  std::string target;           // instruction set; empty on a GPU
  // The operator's parameters, inputs and outputs that it does not take, and
  // inputs that it takes only with one entry for all queries.
  std::vector<std::string> not_taken, pairs_not_taken;
  // Of a GPU kernel: whether some heads, not only all of them, may share a
  // tensor.
  std::optional<bool> takes_groups;
};

// An implementation that this build lacks, and the library that it needs.
struct ListedMissing {
  std::string id, needs;
};

struct OperatorListing {
  std::string id, formula, source;
  std::vector<ListedParam> params;
  std::vector<ListedSize> sizes;
  std::vector<ListedTensor> inputs, outputs;
  Json sample_case;  // a case.json for a generated case of 16 tokens
  std::vector<ListedImplementation> implementations;
  std::vector<ListedMissing> missing;
};

template <>
struct JsonValue<OperatorListing> {
  static Json Write(const OperatorListing& listing);
};

// Returns "boolean", "list of integers" and so on.
std::string_view ToString(ParamType type);

// Finds the conditions of entries by asking the operator under every
// combination of its choices.
OperatorListing ListOperator(const Operator& op);

}  // namespace subquad
