// Names that other attention libraries use and that are no names here.
#pragma once

#include <string>

namespace subquad {

// Returns a sentence about what to do here instead of using this name, or that
// it is not covered. Returns an empty text for other names.
std::string FieldAdvice(const std::string& name);

}  // namespace subquad
