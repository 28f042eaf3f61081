#include "harness/sweep_plan.h"

#include <algorithm>
#include <map>
#include <set>

namespace subquad {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> Texts(const std::string& subject, const Json& json) {
  std::vector<std::string> texts;
  const Json list = json.is_array() ? json : Json::array({json});
  for (const Json& entry : list) {
    if (entry.is_string())
      texts.push_back(entry.get<std::string>());
    else if (entry.is_boolean())
      texts.push_back(entry.get<bool>() ? "1" : "0");
    else if (entry.is_number())
      texts.push_back(entry.dump());
    else
      throw InvalidInput(subject, "texts or numbers", entry.dump());
  }
  if (texts.empty()) throw InvalidInput(subject, "at least one value", "none");
  return texts;
}

std::string Joined(const std::vector<std::string>& texts) {
  std::string joined;
  for (const std::string& text : texts)
    joined += (joined.empty() ? "" : ",") + text;
  return joined;
}

using Values = std::vector<std::pair<std::string, std::string>>;

// Every combination of the axes' values.
std::vector<Values> Cross(const SweepAxes& sweep) {
  std::vector<Values> points = {{}};
  for (const auto& [name, text] : sweep.axes) {
    std::vector<Values> more;
    for (const Values& point : points)
      for (const std::string& value : ParseAxis("--" + name, text)) {
        more.push_back(point);
        more.back().emplace_back(name, value);
      }
    points = std::move(more);
    if (points.size() > 100000)
      throw InvalidInput("axes", "at most 100000 cases", "more");
  }
  return points;
}

Case CaseOf(const Operator& op, const Values& values, Scalar scalar,
            const std::string& input, uint64_t seed) {
  CaseRequest request;
  request.op = &op;
  request.scalar = scalar;
  request.seed = seed;
  request.input = input;
  for (const auto& [name, text] : values) {
    if (name == "n")
      request.n = ParseIntegerAxis("--n", text).front();
    else
      request.values.emplace_back(name, text);
  }
  return MakeCase(request);
}

}  // namespace

std::vector<SweepAxes> ParseSweepConfig(const std::string& name,
                                        const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object() || !json.contains("sweeps") ||
      !json["sweeps"].is_array() || json["sweeps"].empty())
    throw InvalidInput(name,
                       "JSON like {\"sweeps\": [{\"operator\": .., "
                       "\"n\": ..}]}",
                       "something else");
  std::vector<SweepAxes> sweeps;
  for (const Json& entry : json["sweeps"]) {
    if (!entry.is_object())
      throw InvalidInput(name + ": sweeps", "objects", entry.dump());
    SweepAxes sweep;
    for (const auto& [field, value] : entry.items()) {
      const std::string subject = name + ": " + field;
      if (field == "operator")
        sweep.filters.operators = Texts(subject, value);
      else if (field == "implementation")
        sweep.filters.implementations = Texts(subject, value);
      else if (field == "backend")
        sweep.filters.backends = Texts(subject, value);
      else if (field == "scalar")
        sweep.filters.scalars = Texts(subject, value);
      else if (field == "input")
        sweep.inputs = Texts(subject, value);
      else if (field == "threads") {
        sweep.threads.clear();
        for (int64_t threads :
             ParseIntegerAxis(subject, Joined(Texts(subject, value))))
          sweep.threads.push_back(static_cast<int>(threads));
      } else if (field != "comment" && field != "claims")
        sweep.axes.emplace_back(field, Joined(Texts(subject, value)));
    }
    sweeps.push_back(std::move(sweep));
  }
  return sweeps;
}

std::vector<PlannedCase> PlanSweep(const std::vector<SweepAxes>& sweeps,
                                   uint64_t seed) {
  std::vector<PlannedCase> plan;
  std::set<std::string> seen;
  // Sweeps that share a case share its runs, so that all of its implementations
  // are timed in turns.
  std::map<std::string, size_t> places;
  for (const SweepAxes& sweep : sweeps) {
    sweep.filters.Check();
    std::vector<std::pair<std::string, Values>> inputs_and_points;
    for (const std::string& input : sweep.inputs)
      for (const Values& values : Cross(sweep))
        inputs_and_points.emplace_back(input, values);
    for (const Operator* op : Operators()) {
      if (!sweep.filters.Takes(*op)) continue;
      for (const ScalarInfo& info : kScalars) {
        const bool wanted = sweep.filters.scalars.empty()
                                ? info.scalar == Scalar::kFloat32
                                : sweep.filters.Takes(info.scalar);
        if (!wanted) continue;
        for (const auto& [input, values] : inputs_and_points)
          for (int threads : sweep.threads) {
            PlannedCase planned{
                CaseOf(*op, values, info.scalar, input, seed), threads, {}};
            for (const Implementation* one : ImplementationsOf(*op))
              if (sweep.filters.Takes(*one) &&
                  (!sweep.filters.backends.empty() ||
                   IsAvailable(one->backend)) &&
                  std::ranges::count(one->scalars, info.scalar) &&
                  (!planned.one.backward || one->backward) &&
                  seen.insert(planned.one.Id() + "|" + one->id + "|" +
                              std::string(ToString(one->backend)) + "|" +
                              std::to_string(threads))
                      .second)
                planned.implementations.push_back(one);
            if (planned.implementations.empty()) continue;
            const auto [place, fresh] = places.try_emplace(
                planned.one.Id() + "|" + std::to_string(threads), plan.size());
            if (fresh)
              plan.push_back(std::move(planned));
            else
              plan[place->second].implementations.insert(
                  plan[place->second].implementations.end(),
                  planned.implementations.begin(),
                  planned.implementations.end());
          }
      }
    }
  }
  if (plan.empty())
    throw InvalidInput("filters", "at least one implementation and scalar type",
                       "none that matches");
  return plan;
}

}  // namespace subquad
