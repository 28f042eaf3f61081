// Recipes (format recipe/1, reports/files/recipe.schema.json) name the
// measurements on which a figure or a claim rests, in the way a sweep does.
// Settings that a recipe's sweeps leave out have their defaults.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "harness/results/result_file.h"

namespace subquad {

// A record's settings by the names that recipes use, as text: operator,
// implementation, backend, scalar, threads, input, n, sizes and parameters.
using Settings = std::map<std::string, std::string>;
Settings SettingsOf(const Json& record);

// A record with its settings; points into the list that it was made from.
struct RecipePoint {
  Settings settings;
  const Json* record;
  bool mixed = false;  // the file has times of several processors (IsMixed)
};

// Settings that a point must have; a list means any of its values.
using Match = std::map<std::string, std::vector<std::string>>;
// Parses JSON like {"operator": "toeplitz_1d", "n": "256:4096:x4",
// "f": [16, 32]}.
Match MatchOf(const Json& json, const std::string& subject);
bool Fits(const Settings& settings, const Match& match);

// Tells whether a series matches everything that the sweeps measure and that no
// ordinary series matches, whatever the implementation.
bool IsOthers(const Json& series);

class Recipe {
 public:
  // Parses a recipe. Throws InvalidInput that names it for another format and
  // for fields that are missing or have a wrong type.
  Recipe(const std::string& name, const std::string& text);

  const std::string& name() const { return name_; }
  const Json& content() const { return content_; }
  std::string kind() const { return content_.at("kind"); }
  // Returns the axis of its curves, by default n.
  std::string x() const { return content_.value("x", "n"); }

  // Tells whether one of its sweeps measures these settings. `free` names axes
  // on which any value matches.
  bool AsksFor(const Settings& settings,
               const std::set<std::string>& free) const;

 private:
  std::string name_;
  Json content_;
  std::vector<Match> sweeps_;
};

// Returns the recipes of reports/recipes at the time of the build.
const std::vector<Recipe>& BuiltInRecipes();
const Recipe& FindRecipe(const std::string& name);

// Reads recipe files and the .json files of folders.
std::vector<Recipe> ReadRecipes(const std::vector<std::string>& paths);

}  // namespace subquad
