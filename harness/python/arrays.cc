#include "harness/python/arrays.h"

#include <algorithm>

#include "harness/cases/draws.h"
#include "harness/judging/comparison.h"

namespace nb = nanobind;

namespace subquad {
namespace {

bool IsBoolean(const ReadOnlyArray& array) {
  return array.dtype().code ==
             static_cast<uint8_t>(nb::dlpack::dtype_code::Bool) &&
         array.itemsize() == 1;
}

Scalar ScalarOfArray(const std::string& name, const ReadOnlyArray& array,
                     const std::string& said) {
  if (!said.empty()) {
    const Scalar scalar = ParseScalar(said);
    if (static_cast<int64_t>(array.itemsize()) != Info(scalar).bytes)
      throw InvalidInput(
          name, std::to_string(Info(scalar).bytes) + " bytes per element",
          std::to_string(array.itemsize()));
    return scalar;
  }
  const nb::dlpack::dtype type = array.dtype();
  const bool is_float =
      type.code == static_cast<uint8_t>(nb::dlpack::dtype_code::Float);
  if (type.lanes == 1 && is_float && type.bits == 64) return Scalar::kFloat64;
  if (type.lanes == 1 && is_float && type.bits == 32) return Scalar::kFloat32;
  if (type.lanes == 1 && is_float && type.bits == 16) return Scalar::kFloat16;
  if (type.lanes == 1 && type.bits == 16 &&
      type.code == static_cast<uint8_t>(nb::dlpack::dtype_code::Bfloat))
    return Scalar::kBFloat16;
  throw InvalidInput(name, "an array of float64, float32, bfloat16 or float16",
                     "another type of " + std::to_string(type.bits) + " bits");
}

std::string ReprOf(nb::handle value) {
  return nb::cast<std::string>(nb::str(nb::repr(value)));
}

int64_t IntegerOf(const std::string& name, nb::handle value) {
  int64_t number = 0;
  if (!nb::try_cast(value, number))
    throw InvalidInput("parameter " + name, "integers of at most 64 bits",
                       ReprOf(value));
  return number;
}

bool IsInteger(nb::handle value) {
  return nb::isinstance<nb::int_>(value) && !nb::isinstance<nb::bool_>(value);
}
bool IsList(nb::handle value) {
  return nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value);
}
template <typename Predicate>
bool IsListOf(nb::handle value, const Predicate& predicate) {
  if (!IsList(value)) return false;
  for (nb::handle entry : value)
    if (!predicate(entry)) return false;
  return true;
}

// Returns the value of a parameter. A value that no parameter can have, such as
// [0.5], is returned as its text: the check against the operator's rule then
// rejects it and knows what to expect instead.
ParamValue ParamOf(const std::string& name, nb::handle value) {
  if (nb::isinstance<nb::bool_>(value)) return nb::cast<bool>(value);
  if (nb::isinstance<nb::int_>(value)) return IntegerOf(name, value);
  if (nb::isinstance<nb::float_>(value)) return nb::cast<double>(value);
  if (nb::isinstance<nb::str>(value)) return nb::cast<std::string>(value);
  if (IsListOf(value, IsInteger)) {
    IntegerList list;
    for (nb::handle entry : value) list.push_back(IntegerOf(name, entry));
    return list;
  }
  if (!IsListOf(value, [](nb::handle row) { return IsListOf(row, IsInteger); }))
    return (IsList(value) ? "" : "the object ") + ReprOf(value);
  IntegerTable table;
  for (nb::handle row : value) {
    table.emplace_back();
    for (nb::handle entry : row) table.back().push_back(IntegerOf(name, entry));
  }
  return table;
}

nb::object ToPython(const IntegerList& list) {
  nb::list numbers;
  for (const int64_t number : list) numbers.append(number);
  return nb::object(numbers);
}
nb::object ToPython(const IntegerTable& table) {
  nb::list rows;
  for (const IntegerList& row : table) rows.append(ToPython(row));
  return nb::object(rows);
}
nb::object ToPython(bool value) { return nb::bool_(value); }
nb::object ToPython(int64_t value) { return nb::int_(value); }
nb::object ToPython(double value) { return nb::float_(value); }
nb::object ToPython(const std::string& value) {
  return nb::str(value.c_str(), value.size());
}

}  // namespace

std::vector<GivenArray> ArraysOf(nb::list tensors,
                                 std::vector<ReadOnlyArray>& kept) {
  std::vector<GivenArray> arrays;
  for (nb::handle entry : tensors) {
    const auto name = nb::cast<std::string>(entry[0]);
    ReadOnlyArray array;
    if (!nb::try_cast(entry[1], array, false))
      throw InvalidInput(name, "a row-major array of floats on the CPU",
                         "another object");
    GivenArray given;
    given.name = name;
    given.is_boolean = IsBoolean(array);
    if (!given.is_boolean)
      given.scalar =
          ScalarOfArray(name, array, nb::cast<std::string>(entry[2]));
    for (size_t axis = 0; axis < array.ndim(); ++axis)
      given.shape.push_back(static_cast<int64_t>(array.shape(axis)));
    if (given.shape.empty() || given.shape.size() > 5 ||
        std::ranges::any_of(given.shape, [](int64_t n) { return n < 1; }))
      throw InvalidInput(name, "1 to 5 dimensions, each of size 1 or more",
                         "the shape " + ToString(given.shape));
    given.data = array.data();
    kept.push_back(std::move(array));
    arrays.push_back(std::move(given));
  }
  return arrays;
}

Params ParamsOf(nb::dict values) {
  Params params;
  for (auto [key, value] : values) {
    const auto name = nb::cast<std::string>(key);
    params.Set(name, ParamOf(name, value));
  }
  return params;
}

nb::object ToPython(const Params& params) {
  nb::dict values;
  for (const auto& [name, value] : params.values())
    values[name.c_str()] =
        std::visit([](const auto& held) { return ToPython(held); }, value);
  return nb::object(values);
}

nb::object NumPyOwning(char* data, const Shape& shape, Scalar scalar) {
  nb::capsule owner(
      data, [](void* memory) noexcept { delete[] static_cast<char*>(memory); });
  const std::vector<size_t> axes(shape.begin(), shape.end());
  const auto make = [&](nb::dlpack::dtype type) {
    return nb::ndarray<nb::numpy>(data, axes.size(), axes.data(), owner,
                                  nullptr, type)
        .cast();
  };
  switch (scalar) {
    case Scalar::kFloat64:
      return make(nb::dtype<double>());
    case Scalar::kFloat32:
      return make(nb::dtype<float>());
    default:
      return make(nb::dtype<uint16_t>());
  }
}

nb::object BooleansOf(const std::vector<double>& values, const Shape& shape) {
  auto* data = new char[values.size()];
  std::ranges::transform(values, data, [](double x) { return x != 0; });
  nb::capsule owner(
      data, [](void* memory) noexcept { delete[] static_cast<char*>(memory); });
  const std::vector<size_t> axes(shape.begin(), shape.end());
  return nb::ndarray<nb::numpy>(data, axes.size(), axes.data(), owner, nullptr,
                                nb::dtype<bool>())
      .cast();
}

nb::object NumPyOf(const std::vector<double>& values, const Shape& shape,
                   Scalar scalar) {
  auto* data =
      new char[values.size() * static_cast<size_t>(Info(scalar).bytes)];
  for (size_t i = 0; i < values.size(); ++i)
    StoreAt(scalar, RoundTo(scalar, values[i]), data, i);
  return NumPyOwning(data, shape, scalar);
}

}  // namespace subquad
