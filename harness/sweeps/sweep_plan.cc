#include "harness/sweeps/sweep_plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "harness/base/json_text.h"

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

// Returns the values of an axis, which are a range only where colons are no
// part of a value.
std::vector<std::string> ValuesOf(const SweepAxis& axis,
                                  const std::string& subject) {
  const bool has_colons =
      std::ranges::any_of(CaseSettings(), [&](const CaseSetting& setting) {
        return setting.name == axis.name && setting.has_colons;
      });
  return has_colons ? ParseTexts(subject, axis.values)
                    : ParseAxis(subject, axis.values);
}

// Returns every combination of the axes' values.
std::vector<Values> Cross(const SweepAxes& sweep) {
  std::vector<Values> points = {{}};
  for (const SweepAxis& axis : sweep.axes) {
    const std::string& subject =
        axis.subject.empty() ? axis.name : axis.subject;
    // Other axes may be texts; CaseOf reads the first value of this one.
    if (axis.name == "n") ParseIntegerAxis(subject, axis.values);
    std::vector<Values> more;
    for (const Values& point : points)
      for (const std::string& value : ValuesOf(axis, subject)) {
        more.push_back(point);
        more.back().emplace_back(axis.name, value);
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
      request.n = ParseIntegerAxis(name, text).front();
    else
      request.values.emplace_back(name, text);
  }
  const Case test_case = MakeCase(request);
  CheckImageSize(request, test_case);
  return test_case;
}

}  // namespace

std::vector<SweepAxes> ParseSweepConfig(const std::string& name,
                                        const std::string& text) {
  const Json json = ParseJsonText<Json>(name, text);
  if (!json.is_object() || !json.contains("sweeps") ||
      !json["sweeps"].is_array() || json["sweeps"].empty())
    throw InvalidInput(
        name,
        "an object like {\"sweeps\": [{\"operator\": .., "
        "\"n\": ..}]}",
        !json.is_object() ? "JSON of type " + std::string(json.type_name())
        : !json.contains("sweeps") ? "one without \"sweeps\""
        : json["sweeps"].empty()
            ? "\"sweeps\" without entries"
            : "\"sweeps\" of type " + std::string(json["sweeps"].type_name()));
  // A recipe also describes a figure.
  if (!json.contains("format"))
    for (const auto& [field, value] : json.items())
      if (field != "sweeps" && field != "comment")
        throw UnknownName(name + ": field", {"sweeps", "comment"}, field);
  std::vector<SweepAxes> sweeps;
  for (const Json& entry : json["sweeps"]) {
    if (!entry.is_object() || entry.empty())
      throw InvalidInput(name + ": sweeps",
                         "objects that name an operator or sizes",
                         entry.dump());
    SweepAxes sweep;
    sweep.file = name;
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
      else if (field == "interleave") {
        if (!value.is_boolean())
          throw InvalidInput(subject, "true or false", value.dump());
        sweep.interleave = value;
      } else if (field == "threads") {
        sweep.threads.clear();
        for (int64_t threads : ParseIntegerAxis(
                 subject, Joined(Texts(subject, value)), kMostThreads))
          sweep.threads.push_back(static_cast<int>(threads));
      } else if (field != "comment")
        sweep.axes.push_back({field, Joined(Texts(subject, value)), field});
    }
    sweeps.push_back(std::move(sweep));
  }
  return sweeps;
}

namespace {

// Returns the id that the case would have with generated inputs.
std::string IdWithoutInput(Case test_case) {
  test_case.input = "normal";
  return test_case.Id();
}

// Throws InvalidInput if two cases differ in more than their input, for example
// because a folder sets sizes or a bias that other inputs leave at their
// defaults.
void CheckSameBut(const PlannedCase& first, const PlannedCase& other) {
  const std::string wanted = IdWithoutInput(first.test_case),
                    text = IdWithoutInput(other.test_case);
  if (text == wanted) return;
  throw InvalidInput(
      "interleave: input " + other.test_case.input,
      wanted + " as with " + first.test_case.input +
          " (name what differs: n, heads, widths, with, per_head ..)",
      text);
}

class Planner {
 public:
  Planner(const Filters& filters, uint64_t seed)
      : filters_(filters), seed_(seed) {}

  void Add(const SweepAxes& sweep) {
    try {
      AddAll(sweep);
    } catch (const InvalidInput& problem) {
      throw sweep.file.empty() ? problem : problem.In(sweep.file);
    }
  }

  // Moves the cases of a group to the position of its first case.
  std::vector<PlannedCase> Take() {
    std::vector<PlannedCase> ordered;
    std::set<int> done;
    for (const PlannedCase& planned : plan_) {
      if (planned.group < 0) {
        ordered.push_back(planned);
      } else if (done.insert(planned.group).second) {
        for (const PlannedCase& other : plan_)
          if (other.group == planned.group) ordered.push_back(other);
      }
    }
    return ordered;
  }

 private:
  void AddAll(const SweepAxes& sweep) {
    sweep.filters.Check();
    const std::vector<Values> points = Cross(sweep);
    for (const Operator* op : Operators()) {
      if (!sweep.filters.Takes(*op) || !filters_.Takes(*op)) continue;
      for (const ScalarInfo& info : kScalars) {
        const bool open =
            sweep.filters.scalars.empty() && filters_.scalars.empty();
        const bool wanted = open ? info.scalar == Scalar::kFloat32
                                 : sweep.filters.Takes(info.scalar) &&
                                       filters_.Takes(info.scalar);
        if (!wanted) continue;
        for (const Values& values : points)
          for (int threads : sweep.threads)
            AddPoint(sweep, *op, values, info.scalar, threads);
      }
    }
  }

  // Adds one point of the axes with every input.
  void AddPoint(const SweepAxes& sweep, const Operator& op,
                const Values& values, Scalar scalar, int threads) {
    std::vector<size_t> together;
    for (const std::string& input : sweep.inputs) {
      PlannedCase planned{
          CaseOf(op, values, scalar, input, seed_), threads, {}};
      const std::string key =
          planned.test_case.Id() + "|" + std::to_string(threads);
      for (const Implementation* implementation : ImplementationsOf(op))
        if (sweep.filters.Takes(*implementation) &&
            filters_.Takes(*implementation) &&
            (!sweep.filters.backends.empty() || !filters_.backends.empty() ||
             IsAvailable(implementation->backend)) &&
            std::ranges::count(implementation->scalars, scalar) &&
            (!planned.test_case.backward || implementation->backward) &&
            seen_
                .insert(key + "|" + implementation->id + "|" +
                        std::string(ToString(implementation->backend)))
                .second)
          planned.implementations.push_back(implementation);
      if (const auto place = places_.find(key); place != places_.end()) {
        auto& there = plan_[place->second].implementations;
        there.insert(there.end(), planned.implementations.begin(),
                     planned.implementations.end());
        together.push_back(place->second);
      } else if (!planned.implementations.empty()) {
        places_.emplace(key, plan_.size());
        together.push_back(plan_.size());
        plan_.push_back(std::move(planned));
      }
    }
    if (sweep.interleave && together.size() > 1) Group(together);
  }

  // Merges groups that share a case.
  void Group(const std::vector<size_t>& together) {
    const int group = groups_++;
    for (size_t place : together) {
      CheckSameBut(plan_[together.front()], plan_[place]);
      const int old = plan_[place].group;
      for (PlannedCase& planned : plan_)
        if (old >= 0 && planned.group == old) planned.group = group;
      plan_[place].group = group;
    }
  }

  const Filters& filters_;
  const uint64_t seed_;
  std::vector<PlannedCase> plan_;
  std::set<std::string> seen_;
  // Positions of cases by id. Sweeps that share a case share its runs, so that
  // all of its implementations are timed alternately.
  std::map<std::string, size_t> places_;
  int groups_ = 0;
};

}  // namespace

std::vector<PlannedCase> PlanSweep(const std::vector<SweepAxes>& sweeps,
                                   const Filters& filters, uint64_t seed) {
  filters.Check();
  Planner planner(filters, seed);
  for (const SweepAxes& sweep : sweeps) planner.Add(sweep);
  std::vector<PlannedCase> plan = planner.Take();
  if (plan.empty()) throw Filters::LeaveNothing("of the planned cases");
  std::vector<std::pair<const Implementation*, Scalar>> chosen;
  for (const PlannedCase& planned : plan)
    for (const Implementation* implementation : planned.implementations)
      chosen.emplace_back(implementation, planned.test_case.scalar);
  filters.CheckUsed(chosen);
  return plan;
}

}  // namespace subquad
