// Where the program's data is: recipes, sample inputs, the Python package.
#pragma once

#include <filesystem>

namespace subquad {

// The folder that has `reports` in it: $SUBQUAD_DATA, or else share/subquad in
// the folder of the executable or in one of the two above it. So a build folder
// and an installed program find their own, wherever they are moved. Empty if
// none is found. Throws InvalidInput if SUBQUAD_DATA names no such folder.
std::filesystem::path DataFolder();

}  // namespace subquad
