// Helpers for tests that run the CPU implementations of each target that this
// machine supports.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "optimized/targets.h"

namespace subquad {

inline std::vector<std::string> NamesOfTargets() {
  std::vector<std::string> names;
  for (const Target* target : Targets()) names.emplace_back(target->name);
  return names;
}

// Chooses a target for its lifetime.
class ChosenTarget {
 public:
  explicit ChosenTarget(std::string_view name) : before_(CurrentTarget().name) {
    ChooseTarget(name);
  }
  ~ChosenTarget() { ChooseTarget(before_); }
  ChosenTarget(const ChosenTarget&) = delete;
  ChosenTarget& operator=(const ChosenTarget&) = delete;

 private:
  const std::string before_;
};

}  // namespace subquad
