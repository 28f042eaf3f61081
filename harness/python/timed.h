// One of our programs made ready on somebody's arrays, to be run and timed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/python/given.h"
#include "reference/contract/implementation.h"

namespace subquad {

// The inputs are read where they are; whoever makes this keeps them there.
class ReadyProgram {
 public:
  // Throws InvalidInput where the implementation cannot run this problem. An
  // empty id stands for the first implementation that can.
  ReadyProgram(const std::string& op, const Params& params,
               const std::vector<GivenArray>& inputs,
               const std::string& implementation, int threads);

  // Seconds of one run.
  double Run();

  const Problem& problem() const { return problem_; }
  const Implementation& implementation() const { return *implementation_; }
  // Of output `index`, allocated by new char[]; the next run needs it.
  char* output(size_t index) { return outputs_[index].get(); }
  // Given away: no run may follow.
  char* Release(size_t index) { return outputs_[index].release(); }

 private:
  Problem problem_;
  const Implementation* implementation_ = nullptr;
  std::vector<std::unique_ptr<char[]>> outputs_;
  std::unique_ptr<Prepared> prepared_;
};

}  // namespace subquad
