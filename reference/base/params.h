// Parameters of an operator: named values with a type, a range and a meaning.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "reference/base/invalid_input.h"

namespace subquad {

using IntegerList = std::vector<int64_t>;
using IntegerTable = std::vector<std::vector<int64_t>>;
using ParamValue =
    std::variant<bool, int64_t, double, std::string, IntegerList, IntegerTable>;

// Formats a value as in case.json: "true", "12", "0.25", "elu1", "[0, 5]",
// "[[4, 1], [6]]".
std::string ToString(const ParamValue& value);

class Params {
 public:
  bool Has(const std::string& name) const { return values_.contains(name); }
  void Set(const std::string& name, ParamValue value) {
    values_[name] = std::move(value);
  }
  void Erase(const std::string& name) { values_.erase(name); }

  // Returns false for a flag that is not set. The other parameters must exist
  // with the requested type, which CheckParams ensures.
  bool Flag(const std::string& name) const {
    return Has(name) && Get<bool>(name);
  }
  int64_t Integer(const std::string& name) const { return Get<int64_t>(name); }
  double Number(const std::string& name) const { return Get<double>(name); }
  const std::string& Text(const std::string& name) const {
    return Get<std::string>(name);
  }
  const IntegerList& List(const std::string& name) const {
    return Get<IntegerList>(name);
  }
  const IntegerTable& Table(const std::string& name) const {
    return Get<IntegerTable>(name);
  }

  const std::map<std::string, ParamValue>& values() const { return values_; }
  bool operator==(const Params&) const = default;

 private:
  template <typename T>
  const T& Get(const std::string& name) const {
    auto it = values_.find(name);
    if (it == values_.end()) throw InvalidInput(name, "a value", "none");
    const T* value = std::get_if<T>(&it->second);
    if (!value) throw InvalidInput(name, "another type", ToString(it->second));
    return *value;
  }

  std::map<std::string, ParamValue> values_;
};

// Keeps products of two sizes inside int64_t.
inline constexpr int64_t kMaxInteger = (int64_t{1} << 31) - 1;

enum class ParamType { kFlag, kInteger, kNumber, kText, kList, kTable };

// Defines a parameter and its valid values. Integers and the entries of lists
// lie in [min, max]; a number is finite and greater than zero, or zero if
// `may_be_zero`; a text is one of `choices`.
struct ParamRule {
  std::string name;
  ParamType type;
  std::string meaning;
  bool required = true;
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = kMaxInteger;
  std::vector<std::string> choices = {};
  bool follows_n = false;  // an extent that grows with the problem's length
  // The value of an optional parameter that is not given; empty where its
  // absence has a meaning of its own (a sequence instead of an image).
  std::string default_value = {};
  bool may_be_zero = false;  // for numbers
  bool counts_keys = false;  // or blocks of them: a window, a block, a stride
  // The optional input that it describes, without which it has no meaning.
  std::string of_input = {};
  bool may_be_list = false;  // an integer, or several that belong together
  // A flag that is the opposite of this one if it is not given.
  std::string opposite_of = {};

  bool IsOnByDefault() const { return default_value == "true"; }

  static ParamRule Flag(std::string name, std::string meaning) {
    ParamRule rule{std::move(name), ParamType::kFlag, std::move(meaning),
                   false};
    rule.default_value = "false";
    return rule;
  }
  static ParamRule Integer(std::string name, std::string meaning, int64_t min) {
    return {std::move(name), ParamType::kInteger, std::move(meaning), true,
            min};
  }
  // A number of keys, unlimited by default.
  static ParamRule Window(std::string name, std::string meaning) {
    ParamRule rule{std::move(name), ParamType::kInteger, std::move(meaning),
                   false, 0};
    rule.default_value = "unlimited";
    rule.counts_keys = true;
    return rule;
  }
  static ParamRule Scale(std::string default_value) {
    ParamRule rule{"scale", ParamType::kNumber,
                   "multiplies every query-key dot product", false};
    rule.default_value = std::move(default_value);
    return rule;
  }
  static ParamRule Choice(std::string name, std::string meaning,
                          std::vector<std::string> choices) {
    ParamRule rule{std::move(name), ParamType::kText, std::move(meaning)};
    rule.choices = std::move(choices);
    return rule;
  }
};

// Throws InvalidInput naming the parameter that is missing, unknown, of the
// wrong type or out of range. An integer is accepted as a number.
void CheckParams(const std::vector<ParamRule>& rules, Params& params);

}  // namespace subquad
