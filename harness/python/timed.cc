#include "harness/python/timed.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>

#include "harness/judging/comparison.h"

namespace subquad {
namespace {

const Implementation& Choose(const std::string& op, const std::string& id,
                             const Problem& problem) {
  if (!id.empty()) return FindImplementation(op, id);
  std::string why = "no implementation with this scalar type";
  for (const Implementation* implementation : ImplementationsOf(*problem.op)) {
    if (implementation->backend != Backend::kCpu) continue;
    const std::string reason = WhyNot(*implementation, problem);
    if (reason.empty()) return *implementation;
    why = reason;
  }
  throw InvalidInput("implementation", "one that can run this problem", why);
}

}  // namespace

ReadyProgram::ReadyProgram(const std::string& op, const Params& params,
                           const std::vector<GivenArray>& inputs,
                           const std::string& implementation, int threads,
                           const std::vector<std::string>& wanted) {
  if (threads < 1 || threads > 1024)
    throw InvalidInput("threads", "an integer from 1 to 1024",
                       std::to_string(threads));
  const Operator& definition = FindOperator(op);
  std::vector<GivenShape> shapes;
  std::vector<std::string> names;
  std::optional<Scalar> scalar;
  for (const GivenArray& array : inputs) {
    names.push_back(array.name);
    shapes.push_back({array.name, array.shape});
    if (array.is_boolean) continue;
    if (!scalar) scalar = array.scalar;
    if (array.scalar != *scalar)
      throw InvalidInput(array.name,
                         "the scalar type of the other tensors, " +
                             std::string(Info(*scalar).name),
                         std::string(Info(array.scalar).name));
  }
  CheckInputNames(definition, params, names);
  problem_ =
      ResolveProblem(definition, params, scalar.value_or(Scalar::kFloat32),
                     shapes, {}, wanted);
  implementation_ = &Choose(op, implementation, problem_);
  if (const std::string why = WhyNot(*implementation_, problem_); !why.empty())
    throw InvalidInput("implementation " + implementation_->id + ": " + why);
  Arrays arrays;
  for (size_t i = 0; i < problem_.inputs.size(); ++i) {
    const GivenArray& array =
        *std::ranges::find(inputs, problem_.inputs[i].name, &GivenArray::name);
    CheckType(problem_.inputs[i], array);
    const int64_t count = ElementCount(array.shape);
    CheckNumbersOf(problem_.inputs[i], array.shape, [&](size_t x) -> double {
      return array.is_boolean
                 ? static_cast<const unsigned char*>(array.data)[x]
                 : ElementAt(array.scalar, array.data, static_cast<int64_t>(x));
    });
    // Implementations only read their inputs (In<T> returns them const).
    void* data = const_cast<void*>(array.data);
    if (array.is_boolean) {
      converted_.emplace_back(
          new char[static_cast<size_t>(count * Info(problem_.scalar).bytes)]);
      for (size_t x = 0; x < static_cast<size_t>(count); ++x)
        StoreAt(problem_.scalar, static_cast<const unsigned char*>(data)[x],
                converted_.back().get(), x);
      data = converted_.back().get();
    }
    arrays.inputs.push_back(
        {array.name, problem_.scalar, data, problem_.InputSlices(i), count});
  }
  for (size_t i = 0; i < problem_.outputs.size(); ++i) {
    const int64_t count = ElementCount(problem_.OutputShape(i));
    const auto bytes = static_cast<size_t>(count * Info(problem_.scalar).bytes);
    outputs_.emplace_back(new char[bytes]);
    // Fills the outputs with NaN, so that elements that are not written show.
    std::memset(outputs_.back().get(), 0xFF, bytes);
    arrays.outputs.push_back({problem_.outputs[i].name, problem_.scalar,
                              outputs_.back().get(), problem_.OutputSlices(i),
                              count});
  }
  prepared_ = implementation_->Prepare(problem_, arrays, {.threads = threads});
}

double ReadyProgram::Run() {
  const auto start = std::chrono::steady_clock::now();
  prepared_->Run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace subquad
