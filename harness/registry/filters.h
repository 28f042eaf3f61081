// Options that select implementations, and axes of sizes.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "harness/registry/registry.h"

namespace subquad {

// --operator, --implementation, --backend, --scalar: each repeatable.
struct Filters {
  std::vector<std::string> operators, implementations, backends, scalars;

  // Throws InvalidInput for a name that does not exist, and if the GPU is
  // selected by name but is missing or unusable.
  void Check() const;
  // Prints a line on standard error if a GPU is present but unusable.
  void TellOfUnusableDevice() const;
  bool Takes(const Implementation& implementation) const;
  bool Takes(Scalar scalar) const;
  bool Takes(const Operator& op) const;
  // Returns the error "the filters leave no implementation WHICH", where
  // `which` is, for example, "of the planned cases".
  static InvalidInput LeaveNothing(const std::string& which);
  // Returns the filters as they are typed, each after a space.
  std::string ToArguments() const;

  // Throws InvalidInput for a value that selects nothing, instead of ignoring
  // it.
  void CheckUsed(const std::vector<std::pair<const Implementation*, Scalar>>&
                     chosen) const;
};

// Parses "a,b:c" as texts, which may have colons. Throws InvalidInput that
// names the option.
std::vector<std::string> ParseTexts(const std::string& option,
                                    const std::string& text);
// Parses "1024,4096" or "1024:1048576:x2" (also "1:9:+2"). Throws InvalidInput
// that names the option.
std::vector<std::string> ParseAxis(const std::string& option,
                                   const std::string& text);
// Parses such an axis of integers from 1 to `most`.
std::vector<int64_t> ParseIntegerAxis(const std::string& option,
                                      const std::string& text,
                                      int64_t most = kMaxInteger);

inline constexpr int64_t kMostThreads = 1024;

}  // namespace subquad
