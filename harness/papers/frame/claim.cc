#include "harness/papers/frame/claim.h"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "harness/papers/frame/study_rule.h"

namespace subquad {
namespace {

Rule Because(Holds holds, const std::string& reason) {
  return [=](const Evidence&) {
    Finding finding;
    finding.Add(holds, reason);
    return finding;
  };
}

// The verdict of a study. Without its file: what the study comes near to and
// cannot answer either has its reason.
Rule OfStudy(const Paper& paper, const Claim& claim) {
  const auto study =
      std::ranges::find(paper.studies, claim.study, &Study::name);
  if (study == paper.studies.end())
    throw std::logic_error("claim " + claim.id + ": no study " + claim.study +
                           " is in " + paper.folder);
  return [study = *study, verdict = claim.verdict,
          reason = claim.why_not](const Evidence& evidence) {
    Finding finding = FromStudies(evidence, study, verdict);
    if (!reason.empty() && finding.verdict() == ClaimVerdict::kNotMeasured)
      return Because(Holds::kUntestable, reason)(evidence);
    return finding;
  };
}

std::string TextOf(const Json& row, const char* field) {
  return row.value(field, "");
}

void CheckFields(const Json& row) {
  static const std::set<std::string> known = {"id",
                                              "place",
                                              "words",
                                              "says",
                                              "study",
                                              "verdict",
                                              "recipes",
                                              "same_as",
                                              "erratum",
                                              "why_not",
                                              "holds_by_construction",
                                              "not_attempted",
                                              "planted"};
  for (const auto& [field, value] : row.items())
    if (!known.contains(field))
      throw std::logic_error(row.at("id").get<std::string>() +
                             ": no claim has a field " + field);
}

}  // namespace

std::string_view ToString(ClaimKind kind) {
  switch (kind) {
    case ClaimKind::kErratum:
      return "erratum";
    case ClaimKind::kProperty:
      return "property";
    case ClaimKind::kSweep:
      return "sweep";
    case ClaimKind::kStudy:
      return "study";
    case ClaimKind::kNone:
      return "none";
  }
  return "";
}

ClaimKind Claim::kind() const {
  return !erratum.empty()                           ? ClaimKind::kErratum
         : !study.empty()                           ? ClaimKind::kStudy
         : !recipes.empty()                         ? ClaimKind::kSweep
         : why_not.empty() && not_attempted.empty() ? ClaimKind::kProperty
                                                    : ClaimKind::kNone;
}

std::vector<Claim> ClaimsOf(const Paper& paper, const std::string& text) {
  const Json file = Json::parse(text);
  std::vector<Claim> claims;
  std::set<std::string> unused;
  for (const NamedRule& rule : paper.rules) unused.insert(rule.first);
  for (const Json& row : file.at("claims")) {
    CheckFields(row);
    Claim claim{
        .id = row.at("id"),
        .paper = file.at("paper"),
        .place = row.at("place"),
        .words = TextOf(row, "words"),
        .says = row.at("says"),
        .study = TextOf(row, "study"),
        .verdict = row.value("verdict", row.at("id").get<std::string>()),
        .recipes = row.value("recipes", std::vector<std::string>{}),
        .same_as = TextOf(row, "same_as"),
        .erratum = TextOf(row, "erratum"),
        .why_not = TextOf(row, "why_not"),
        .not_attempted = TextOf(row, "not_attempted"),
        .planted = row.value("planted", std::map<std::string, double>{}),
        .rule = {}};
    const auto rule =
        std::ranges::find(paper.rules, claim.id, &NamedRule::first);
    const int answers = (rule != paper.rules.end()) + !claim.same_as.empty() +
                        (!claim.study.empty() || !claim.why_not.empty() ||
                         !claim.not_attempted.empty());
    if (answers != 1)
      throw std::logic_error("claim " + claim.id + " has " +
                             (answers == 0 ? "no rule" : "two answers"));
    if (!claim.erratum.empty() &&
        std::ranges::find(kErratumClasses, claim.erratum) ==
            std::end(kErratumClasses))
      throw std::logic_error("claim " + claim.id + ": no class of errata is " +
                             claim.erratum);
    if (rule != paper.rules.end()) {
      unused.erase(claim.id);
      claim.rule = rule->second;
    } else if (!claim.study.empty()) {
      claim.rule = OfStudy(paper, claim);
    } else if (!claim.not_attempted.empty()) {
      claim.rule = Because(Holds::kNotAttempted, claim.not_attempted);
    } else if (!claim.why_not.empty()) {
      claim.rule = Because(Holds::kUntestable, claim.why_not);
    }
    if (row.value("holds_by_construction", false))
      claim.rule = [inner = claim.rule](const Evidence& evidence) {
        Finding finding = inner(evidence);
        finding.HoldsByConstruction();
        return finding;
      };
    claims.push_back(std::move(claim));
  }
  if (!unused.empty())
    throw std::logic_error("rule " + *unused.begin() + " has no claim in " +
                           paper.folder);
  return claims;
}

}  // namespace subquad
