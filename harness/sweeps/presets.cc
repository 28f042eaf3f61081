#include "harness/sweeps/presets.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "reference/base/invalid_input.h"

namespace subquad {
namespace {

using Json = nlohmann::ordered_json;

// Returns the sweeps of all recipes: those for a GPU, or the others.
Preset AllRecipes(const std::string& name, bool of_gpu) {
  Json sweeps = Json::array();
  for (const Preset& recipe : RecipeFiles()) {
    const Json json = Json::parse(recipe.text);
    for (const Json& sweep : json.value("sweeps", Json::array()))
      if ((sweep.value("backend", Json()) == "cuda") == of_gpu)
        sweeps.push_back(sweep);
  }
  return {name, Json{{"sweeps", sweeps}}.dump()};
}

// Finds the recipe whose sweeps a recipe uses: its own, or those of the recipe
// that `like` names.
const Preset* FindRecipe(const std::string& name) {
  const auto position = std::ranges::find(RecipeFiles(), name, &Preset::name);
  if (position == RecipeFiles().end()) return nullptr;
  const Json json = Json::parse(position->text);
  if (json.contains("like")) return FindRecipe(json["like"]);
  return json.contains("sweeps") ? &*position : nullptr;
}

}  // namespace

const std::vector<Preset>& Presets() {
  static const std::vector<Preset> presets = [] {
    std::vector<Preset> all = PresetFiles();
    all.push_back(AllRecipes("paper", false));
    all.push_back(AllRecipes("gpu", true));
    return all;
  }();
  return presets;
}

const Preset& FindPreset(const std::string& name) {
  std::vector<std::string> names;
  for (const Preset& preset : Presets()) {
    if (preset.name == name) return preset;
    names.push_back(preset.name);
  }
  if (const Preset* recipe = FindRecipe(name)) return *recipe;
  for (const Preset& recipe : RecipeFiles())
    if (FindRecipe(recipe.name)) names.push_back(recipe.name);
  throw UnknownName("--preset", names, name);
}

}  // namespace subquad
