#include "harness/results/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "harness/base/json_text.h"
#include "harness/registry/filters.h"
#include "harness/results/lengths.h"

namespace subquad {

// Written by harness/sweeps/embed.cmake.
struct Preset {
  std::string name, text;
};
const std::vector<Preset>& RecipeFiles();

namespace {

namespace fs = std::filesystem;

// Returns the defaults of settings that a sweep does not name. Other settings
// (block, stride ..) may have any value, but all points of a curve share it.
const Settings& Defaults() {
  static const Settings defaults = {
      {"scalar", "float32"}, {"threads", "1"},  {"input", "normal"},
      {"d", "64"},           {"e", "64"},       {"heads", "1"},
      {"batch", "1"},        {"causal", "0"},   {"backward", "0"},
      {"normalize", "0"},    {"per_head", "0"}, {"leading", ""},
      {"shared", ""},        {"with", ""}};
  return defaults;
}

// Returns a value as text in one spelling: 1 for true, 64 for 64.0.
std::string TextOf(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "1" : "0";
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (number == std::floor(number) && std::abs(number) < 1e15)
      return std::to_string(static_cast<int64_t>(number));
  }
  if (value.is_array()) {
    std::string text;
    for (const Json& entry : value)
      text += (text.empty() ? "" : "+") + TextOf(entry);
    return text;
  }
  return value.dump();
}

// Checks a series `others`, which is a line for each implementation.
void CheckOthers(const Json& recipe, const std::string& subject) {
  for (const char* list : {"series", "baselines"})
    for (const Json& series : recipe.value(list, Json::array())) {
      if (!IsOthers(series)) continue;
      const std::string label = series.at("label");
      const std::string place = subject + ": others";
      if (series.at("others") != true)
        throw InvalidInput(place, "true", series.at("others").dump());
      if (recipe.at("kind") != "curves" || list != std::string("series"))
        throw InvalidInput(place, "a series of a recipe of kind curves",
                           "'" + label + "'");
      if (series.value("by", Json()) != "implementation")
        throw InvalidInput(place, "\"by\": \"implementation\"",
                           series.value("by", Json()).dump());
      if (label.find("{implementation}") == std::string::npos)
        throw InvalidInput(place, "a label with {implementation}",
                           "'" + label + "'");
      if (series.contains("style"))
        throw InvalidInput(place, "no style", series.at("style").dump());
    }
}

}  // namespace

Settings SettingsOf(const Json& record) {
  Settings settings = {{"with", ""}};
  for (const char* name :
       {"operator", "implementation", "backend", "scalar", "threads", "input"})
    if (record.contains(name)) settings[name] = TextOf(record.at(name));
  const Json curve = CurveSettings(record);
  for (const char* part : {"size", "params"})
    for (const auto& [name, value] : curve.at(part).items())
      settings[name] = TextOf(value);
  if (curve.contains("aspect")) settings["aspect"] = TextOf(curve["aspect"]);
  for (const char* name : {"height", "width"})
    if (record.at("size").contains(name))
      settings[name] = TextOf(record.at("size").at(name));
  settings["n"] = TextOf(LengthOf(record));
  return settings;
}

Match MatchOf(const Json& json, const std::string& subject) {
  Match match;
  for (const auto& [name, value] : json.items()) {
    if (name == "comment" || name == "interleave") continue;
    for (const Json& entry : value.is_array() ? value : Json::array({value})) {
      // "with": "" means a line without optional inputs and is not a list.
      if (!entry.is_string() || entry == "") {
        match[name].push_back(TextOf(entry));
        continue;
      }
      for (const std::string& text :
           ParseAxis(subject + ": " + name, entry.get<std::string>()))
        match[name].push_back(text == "true"    ? "1"
                              : text == "false" ? "0"
                                                : text);
    }
  }
  return match;
}

bool Fits(const Settings& settings, const Match& match) {
  return std::ranges::all_of(match, [&](const auto& wanted) {
    const auto position = settings.find(wanted.first);
    return position != settings.end() &&
           std::ranges::count(wanted.second, position->second) > 0;
  });
}

bool IsOthers(const Json& series) { return series.contains("others"); }

Recipe::Recipe(const std::string& name, const std::string& text)
    : name_(name), content_(ParseJsonText<Json>("recipe " + name, text)) {
  const std::string subject = "recipe " + name;
  const auto value_of = [&](const char* key) {
    return content_.is_object() ? content_.value(key, Json()) : Json();
  };
  if (value_of("format") != "recipe/1" || !value_of("kind").is_string())
    throw InvalidInput(
        subject, "an object with \"format\": \"recipe/1\" and a kind",
        !content_.is_object()
            ? "no object"
            : fmt::format("format {} and kind {}", value_of("format").dump(),
                          value_of("kind").dump()));
  // Checks lists of objects with these fields, as text or as objects.
  const auto check = [&](const char* list, std::vector<const char*> texts,
                         std::vector<const char*> objects) {
    if (!content_.contains(list)) return;
    const auto wrong = [&](const std::string& expected, const Json& found) {
      return InvalidInput(subject + ": " + list, expected, found.dump());
    };
    if (!content_[list].is_array()) throw wrong("a list", content_[list]);
    for (const Json& entry : content_[list]) {
      if (!entry.is_object()) throw wrong("a list of objects", entry);
      for (const char* field : texts)
        if (!entry.value(field, Json()).is_string())
          throw wrong(std::string(field) + " as text", entry);
      for (const char* field : objects)
        if (!entry.value(field, Json()).is_object())
          throw wrong(std::string(field) + " as an object", entry);
    }
  };
  check("sweeps", {"operator"}, {});
  check("series", {"label"}, {"match"});
  check("baselines", {"label"}, {"match"});
  check("panels", {"y"}, {});
  for (const Json& pair : content_.value("crossovers", Json::array()))
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() ||
        !pair[1].is_string())
      throw InvalidInput(subject + ": crossovers", "pairs of series by id",
                         pair.dump());
  if (kind() == "map" && (!content_.value("y", Json()).is_string() ||
                          content_.value("series", Json()).size() != 1))
    throw InvalidInput(
        subject, "y and one series for a map",
        fmt::format("y {} and {} series", content_.value("y", Json()).dump(),
                    content_.value("series", Json()).size()));
  CheckOthers(content_, subject);
  for (const Json& sweep : content_.value("sweeps", Json::array()))
    sweeps_.push_back(MatchOf(sweep, subject));
}

bool Recipe::AsksFor(const Settings& settings,
                     const std::set<std::string>& free) const {
  return std::ranges::any_of(sweeps_, [&](const Match& sweep) {
    Match wanted = sweep;
    std::erase_if(wanted,
                  [&](const auto& item) { return free.contains(item.first); });
    if (!Fits(settings, wanted)) return false;
    return std::ranges::all_of(Defaults(), [&](const auto& plain) {
      const auto position = settings.find(plain.first);
      return free.contains(plain.first) || sweep.contains(plain.first) ||
             position == settings.end() || position->second == plain.second;
    });
  });
}

const std::vector<Recipe>& BuiltInRecipes() {
  static const std::vector<Recipe> recipes = [] {
    std::vector<Recipe> all;
    for (const Preset& preset : RecipeFiles())
      all.emplace_back(preset.name, preset.text);
    return all;
  }();
  return recipes;
}

const Recipe& FindRecipe(const std::string& name) {
  const auto position =
      std::ranges::find(BuiltInRecipes(), name, &Recipe::name);
  if (position == BuiltInRecipes().end())
    throw InvalidInput("recipe", "a name in reports/recipes", "'" + name + "'");
  return *position;
}

std::vector<Recipe> ReadRecipes(const std::vector<std::string>& paths) {
  std::set<fs::path> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      files.insert(path);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(path))
      if (entry.path().extension() == ".json") files.insert(entry.path());
  }
  std::vector<Recipe> recipes;
  for (const fs::path& file : files) {
    std::ifstream stream(file);
    if (!stream)
      throw InvalidInput(file.string(), "a recipe", "no file that can be read");
    std::stringstream text;
    text << stream.rdbuf();
    try {
      recipes.emplace_back(file.stem().string(), text.str());
    } catch (const InvalidInput& problem) {
      throw problem.In(file.string());
    }
  }
  return recipes;
}

}  // namespace subquad
