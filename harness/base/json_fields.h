// Converts structs to JSON and back from one list of their fields:
//
//   template <FieldsOf<Point> T, typename Fields>
//   void VisitFields(T& point, Fields&& fields) {
//     fields("x", point.x, Empty::kValue);
//     fields("label", point.label, Empty::kNull);
//   }
//
// WriteJson(point) writes the fields in this order, ReadJson<Point> reads them,
// and ListFields<Point> names them. `fields.Group(point.optional_part)` stands
// for the fields of an optional struct, which are all there or all absent.
#pragma once

#include <algorithm>
#include <compare>
#include <concepts>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "reference/base/invalid_input.h"

namespace subquad {

using Json = nlohmann::ordered_json;

// How a field without a value is written.
enum class Empty {
  kValue,    // it always has a value
  kNull,     // as null
  kOmitted,  // not at all
};

template <typename T, typename Struct>
concept FieldsOf = std::same_as<std::remove_const_t<T>, Struct>;

// Named values in the order of the file, an object in JSON.
template <typename Value>
using Named = std::vector<std::pair<std::string, Value>>;

// The names of an enumeration's values, found by ToString. Specializations have
// the values: `static constexpr std::array kValues = {..}`.
template <typename Enum>
struct EnumValues;

// Converts one type. Specializations for types that are neither structs with
// fields nor below have the functions Write and Read.
template <typename T>
struct JsonValue;

template <typename T>
Json WriteJson(const T& value) {
  return JsonValue<T>::Write(value);
}

// Throws InvalidInput that names `where` and the field if a field is missing,
// unknown or of a wrong type.
template <typename T>
T ReadJson(const Json& json, const std::string& where) {
  T value{};
  JsonValue<T>::Read(json, where, value);
  return value;
}

inline InvalidInput WrongJson(const std::string& where,
                              const std::string& expected, const Json& json) {
  return InvalidInput(where, expected, json.dump());
}

// Tells whether a value counts as empty for `Empty`.
template <typename T>
bool IsEmpty(const T& value) {
  if constexpr (requires { value.has_value(); })
    return !value.has_value();
  else if constexpr (requires { value.empty(); })
    return value.empty();
  else
    return false;
}

class FieldWriter {
 public:
  template <typename T>
  void operator()(const char* name, const T& value, Empty empty) {
    if (empty == Empty::kValue || !IsEmpty(value))
      json_[name] = WriteJson(value);
    else if (empty == Empty::kNull)
      json_[name] = nullptr;
  }

  template <typename T>
  void Group(const std::optional<T>& part) {
    if (part) VisitFields(*part, *this);
  }

  Json Take() { return std::move(json_); }

 private:
  Json json_ = Json::object();
};

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
    JsonValue<T>::Read(*field, path, value);
  }

  template <typename T>
  void Group(std::optional<T>& part) {
    T value;
    bool any = false;
    VisitFields(value, [&](const char* name, const auto&, Empty) {
      any = any || json_.contains(name);
    });
    if (any) VisitFields(part.emplace(), *this);
  }

  // Throws InvalidInput if the object has a field that no call has named.
  void RefuseUnknown() const {
    for (const auto& [name, value] : json_.items())
      if (!known_.contains(name))
        throw InvalidInput(where_ + ": " + name, "no such field", value.dump());
  }

 private:
  const Json& json_;
  const std::string where_;
  std::set<std::string> known_;
};

template <typename T>
concept HasFields = requires(T& value, FieldWriter& fields) {
  VisitFields(value, fields);
};

template <HasFields T>
Json WriteFields(const T& value) {
  FieldWriter writer;
  VisitFields(value, writer);
  return writer.Take();
}

template <HasFields T>
void ReadFields(const Json& json, const std::string& where, T& value) {
  FieldReader reader(json, where);
  VisitFields(value, reader);
  reader.RefuseUnknown();
}

template <HasFields T>
struct JsonValue<T> {
  static Json Write(const T& value) { return WriteFields(value); }
  static void Read(const Json& json, const std::string& where, T& value) {
    ReadFields(json, where, value);
  }
};

template <>
struct JsonValue<Json> {
  static Json Write(const Json& value) { return value; }
  static void Read(const Json& json, const std::string&, Json& value) {
    value = json;
  }
};

template <>
struct JsonValue<std::string> {
  static Json Write(const std::string& value) { return value; }
  static void Read(const Json& json, const std::string& where,
                   std::string& value) {
    if (!json.is_string()) throw WrongJson(where, "text", json);
    value = json.get<std::string>();
  }
};

template <>
struct JsonValue<bool> {
  static Json Write(bool value) { return value; }
  static void Read(const Json& json, const std::string& where, bool& value) {
    if (!json.is_boolean()) throw WrongJson(where, "true or false", json);
    value = json.get<bool>();
  }
};

template <std::integral T>
requires(!std::same_as<T, bool>) struct JsonValue<T> {
  static Json Write(T value) { return value; }
  static void Read(const Json& json, const std::string& where, T& value) {
    if (!json.is_number_integer()) throw WrongJson(where, "an integer", json);
    value = json.get<T>();
  }
};

template <>
struct JsonValue<double> {
  static Json Write(double value) { return value; }
  static void Read(const Json& json, const std::string& where, double& value) {
    if (!json.is_number()) throw WrongJson(where, "a number", json);
    value = json.get<double>();
  }
};

template <typename T>
requires std::is_enum_v<T>
struct JsonValue<T> {
  static Json Write(T value) { return std::string(ToString(value)); }
  static void Read(const Json& json, const std::string& where, T& value) {
    std::string names;
    for (const T candidate : EnumValues<T>::kValues) {
      if (json == Json(ToString(candidate))) {
        value = candidate;
        return;
      }
      names +=
          (names.empty() ? "one of " : ", ") + std::string(ToString(candidate));
    }
    throw WrongJson(where, names, json);
  }
};

template <typename T>
struct JsonValue<std::optional<T>> {
  static Json Write(const std::optional<T>& value) {
    return value ? WriteJson(*value) : Json(nullptr);
  }
  static void Read(const Json& json, const std::string& where,
                   std::optional<T>& value) {
    JsonValue<T>::Read(json, where, value.emplace());
  }
};

// Distinguishes a field that is null (an empty inner value) from one that is
// absent.
template <typename T>
struct JsonValue<std::optional<std::optional<T>>> {
  static Json Write(const std::optional<std::optional<T>>& value) {
    return value ? WriteJson(*value) : Json(nullptr);
  }
  static void Read(const Json& json, const std::string& where,
                   std::optional<std::optional<T>>& value) {
    value.emplace();
    if (!json.is_null()) JsonValue<T>::Read(json, where, value->emplace());
  }
};

template <typename T>
struct JsonValue<std::vector<T>> {
  static Json Write(const std::vector<T>& values) {
    Json json = Json::array();
    for (const T& value : values) json.push_back(WriteJson(value));
    return json;
  }
  static void Read(const Json& json, const std::string& where,
                   std::vector<T>& values) {
    if (!json.is_array()) throw WrongJson(where, "a list", json);
    for (const Json& entry : json) values.push_back(ReadJson<T>(entry, where));
  }
};

template <typename T>
struct JsonValue<std::vector<std::pair<std::string, T>>> {
  static Json Write(const Named<T>& values) {
    Json json = Json::object();
    for (const auto& [name, value] : values) json[name] = WriteJson(value);
    return json;
  }
  static void Read(const Json& json, const std::string& where,
                   Named<T>& values) {
    if (!json.is_object()) throw WrongJson(where, "an object", json);
    for (const auto& [name, entry] : json.items())
      values.emplace_back(name, ReadJson<T>(entry, where + ": " + name));
  }
};

// A field of a struct's JSON.
struct JsonField {
  std::string path;       // "check.reason"
  bool required = true;   // whether it is always present
  bool nullable = false;  // whether it can be null

  auto operator<=>(const JsonField&) const = default;
};

class FieldLister {
 public:
  explicit FieldLister(std::string prefix = "", bool required = true)
      : prefix_(std::move(prefix)), required_(required) {}

  template <typename T>
  void operator()(const char* name, const T&, Empty empty) {
    const std::string path = prefix_ + name;
    fields_.push_back({path, required_ && empty != Empty::kOmitted,
                       empty == Empty::kNull || IsDoublyOptional<T>::value});
    AddFieldsOf<T>(path + ".");
  }

  template <typename T>
  void Group(const std::optional<T>&) {
    const T part{};
    FieldLister lister(prefix_, false);
    VisitFields(part, lister);
    Append(lister.fields_);
  }

  const std::vector<JsonField>& fields() const { return fields_; }

 private:
  template <typename T>
  struct IsDoublyOptional : std::false_type {};
  template <typename T>
  struct IsDoublyOptional<std::optional<std::optional<T>>> : std::true_type {};

  template <typename T>
  void AddFieldsOf(const std::string& prefix) {
    if constexpr (requires(T value) { value.has_value(); }) {
      AddFieldsOf<typename T::value_type>(prefix);
    } else if constexpr (HasFields<T>) {
      const T value{};
      FieldLister lister(prefix);
      VisitFields(value, lister);
      Append(lister.fields_);
    }
  }

  void Append(const std::vector<JsonField>& more) {
    fields_.insert(fields_.end(), more.begin(), more.end());
  }

  std::string prefix_;
  bool required_;
  std::vector<JsonField> fields_;
};

// Returns the fields of a struct and of the structs in it.
template <HasFields T>
std::vector<JsonField> ListFields() {
  const T value{};
  FieldLister lister;
  VisitFields(value, lister);
  return lister.fields();
}

}  // namespace subquad
