// Prepares one of our implementations on the caller's arrays, to run and time
// it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/python/given.h"
#include "reference/contract/implementation.h"

namespace subquad {

// The inputs are not copied; the caller keeps them alive and in place.
class ReadyProgram {
 public:
  // Throws InvalidInput if the implementation cannot run this problem. An empty
  // id selects the first implementation that can. `wanted` names the optional
  // outputs to compute.
  ReadyProgram(const std::string& op, const Params& params,
               const std::vector<GivenArray>& inputs,
               const std::string& implementation, int threads,
               const std::vector<std::string>& wanted);

  // Runs once and returns the seconds.
  double Run();

  const Problem& problem() const { return problem_; }
  const Implementation& implementation() const { return *implementation_; }
  // Returns the memory of output `index`, allocated by new char[]. The next run
  // writes to it.
  char* output(size_t index) { return outputs_[index].get(); }
  // Transfers ownership of an output; no run may follow.
  char* Release(size_t index) { return outputs_[index].release(); }

 private:
  Problem problem_;
  const Implementation* implementation_ = nullptr;
  std::vector<std::unique_ptr<char[]>> converted_;  // from booleans
  std::vector<std::unique_ptr<char[]>> outputs_;
  std::unique_ptr<Prepared> prepared_;
};

}  // namespace subquad
