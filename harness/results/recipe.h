// Recipes (format recipe/1, reports/files/recipe.schema.json): which
// measurements a figure or a claim rests on. A recipe names them as a sweep
// does; a setting that its sweeps leave out has its default.
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
  bool mixed = false;  // of a file that IsMixed
};

// Settings that a point must have; a list means any of its values.
using Match = std::map<std::string, std::vector<std::string>>;
// Of JSON like {"operator": "toeplitz_1d", "n": "256:4096:x4", "f": [16, 32]}.
Match MatchOf(const Json& json, const std::string& subject);
bool Fits(const Settings& settings, const Match& match);

// Whether a series of a recipe takes what the sweeps ask for whatever the
// implementation, and no series that is not such a one takes.
bool IsOthers(const Json& series);

class Recipe {
 public:
  // Throws InvalidInput that names the recipe for another format, and for
  // fields that are missing or of another type.
  Recipe(const std::string& name, const std::string& text);

  const std::string& name() const { return name_; }
  const Json& content() const { return content_; }
  std::string kind() const { return content_.at("kind"); }
  // The axis of its curves: n unless it says otherwise.
  std::string x() const { return content_.value("x", "n"); }

  // Whether one of its sweeps measures these settings; `free` names axes on
  // which any value will do.
  bool AsksFor(const Settings& settings,
               const std::set<std::string>& free) const;

 private:
  std::string name_;
  Json content_;
  std::vector<Match> sweeps_;
};

// Those of reports/recipes when the program was built.
const std::vector<Recipe>& BuiltInRecipes();
const Recipe& FindRecipe(const std::string& name);

// Recipe files, and the .json files of folders.
std::vector<Recipe> ReadRecipes(const std::vector<std::string>& paths);

}  // namespace subquad
