// What the options of a command choose: implementations and axes of sizes.
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

  // Throws InvalidInput for a name that does not exist, and where a GPU is
  // asked for by name that is not there or cannot be used.
  void Check() const;
  // A line on standard error where a GPU is there that cannot be used.
  void TellOfUnusableDevice() const;
  bool Takes(const Implementation& implementation) const;
  bool Takes(Scalar scalar) const;
  bool Takes(const Operator& op) const;

  // Throws InvalidInput for a value that chose nothing: it would have been
  // ignored.
  void CheckUsed(const std::vector<std::pair<const Implementation*, Scalar>>&
                     chosen) const;
};

// "1024,4096" or "1024:1048576:x2" (also "1:9:+2"). Throws InvalidInput that
// names the option.
std::vector<std::string> ParseAxis(const std::string& option,
                                   const std::string& text);
std::vector<int64_t> ParseIntegerAxis(const std::string& option,
                                      const std::string& text);

}  // namespace subquad
