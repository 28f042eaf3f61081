// Predefined sweeps by name.
#pragma once

#include <string>
#include <vector>

namespace subquad {

struct Preset {
  std::string name, text;  // JSON that ParseSweepConfig() reads
};

// Returns the files of presets/ and, as `paper`, all sweeps of the recipes.
const std::vector<Preset>& Presets();
// Returns one of Presets(), or the sweeps of one recipe. Throws InvalidInput
// that names the presets.
const Preset& FindPreset(const std::string& name);

// Returns the files of harness/sweeps/presets/ and reports/recipes/.
const std::vector<Preset>& PresetFiles();
const std::vector<Preset>& RecipeFiles();

}  // namespace subquad
