#include "harness/python/timed.h"

#include <algorithm>
#include <chrono>
#include <cstring>

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
  for (const GivenArray& array : inputs) {
    names.push_back(array.name);
    shapes.push_back({array.name, array.shape});
    if (array.scalar != inputs.front().scalar)
      throw InvalidInput(array.name,
                         "the scalar type of the other tensors, " +
                             std::string(Info(inputs.front().scalar).name),
                         std::string(Info(array.scalar).name));
  }
  CheckInputNames(definition, params, names);
  problem_ = ResolveProblem(definition, params, inputs.front().scalar, shapes,
                            {}, wanted);
  implementation_ = &Choose(op, implementation, problem_);
  if (const std::string why = WhyNot(*implementation_, problem_); !why.empty())
    throw InvalidInput("implementation " + implementation_->id + ": " + why);
  Arrays arrays;
  for (size_t i = 0; i < problem_.inputs.size(); ++i) {
    const GivenArray& array =
        *std::ranges::find(inputs, problem_.inputs[i].name, &GivenArray::name);
    // Implementations only read their inputs (In<T> returns them const).
    arrays.inputs.push_back(
        {array.name, array.scalar, const_cast<void*>(array.data),
         problem_.InputSlices(i), ElementCount(array.shape)});
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
