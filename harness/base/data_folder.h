// Locates the program's data: recipes, sample inputs, the Python package.
#pragma once

#include <filesystem>

namespace subquad {

// Returns the folder that contains `reports`: $SUBQUAD_DATA if it is set,
// otherwise share/subquad in the folder of the executable or in one of the two
// folders above it, so that a build folder and an installed program can be
// moved. Empty if none exists. Throws InvalidInput if SUBQUAD_DATA is not such
// a folder.
std::filesystem::path DataFolder();

}  // namespace subquad
