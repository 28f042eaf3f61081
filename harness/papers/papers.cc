#include "harness/papers/papers.h"

#include <algorithm>
#include <stdexcept>

#include "harness/papers/fastrpb/fastrpb.h"
#include "harness/papers/lrpe/lrpe.h"
#include "harness/papers/nprf/nprf.h"
#include "harness/papers/ours/ours.h"
#include "harness/papers/survey/survey.h"
#include "harness/papers/transformer_xl/transformer_xl.h"
#include "harness/sweeps/presets.h"

namespace subquad {

// The texts of all claims.json by folder: written at build time by
// harness/sweeps/embed.cmake.
const std::vector<Preset>& ClaimFiles();

const std::vector<Paper>& Papers() {
  static const std::vector<Paper> papers = [] {
    std::vector<Paper> all;
    all.push_back(FastRpb());
    all.push_back(Lrpe());
    all.push_back(Nprf());
    all.push_back(TransformerXl());
    all.push_back(Survey());
    all.push_back(Ours());
    return all;
  }();
  return papers;
}

const std::vector<Claim>& Claims() {
  static const std::vector<Claim> claims = [] {
    std::vector<Claim> all;
    for (const Paper& paper : Papers()) {
      const auto file =
          std::ranges::find(ClaimFiles(), paper.folder, &Preset::name);
      if (file == ClaimFiles().end())
        throw std::logic_error("no claims.json in " + paper.folder);
      for (Claim& claim : ClaimsOf(paper, file->text))
        all.push_back(std::move(claim));
    }
    for (Claim& claim : all) {
      if (claim.same_as.empty()) continue;
      const auto other = std::ranges::find(all, claim.same_as, &Claim::id);
      if (other == all.end() || !other->same_as.empty())
        throw std::logic_error("claim " + claim.id + " is the same as " +
                               claim.same_as + ", which has no rule");
      claim.rule = other->rule;
      claim.recipes = other->recipes;
    }
    return all;
  }();
  return claims;
}

const Claim& FindClaim(std::string_view id) {
  const auto found = std::ranges::find(Claims(), id, &Claim::id);
  if (found == Claims().end())
    throw std::logic_error("no claim " + std::string(id));
  return *found;
}

const std::vector<Study>& Studies() {
  static const std::vector<Study> studies = [] {
    std::vector<Study> all;
    for (const Paper& paper : Papers())
      all.insert(all.end(), paper.studies.begin(), paper.studies.end());
    return all;
  }();
  return studies;
}

const Study& FindStudy(std::string_view name) {
  std::vector<std::string> names = {"all"};
  for (const Study& study : Studies()) {
    if (study.name == name) return study;
    names.push_back(study.name);
  }
  throw UnknownName("study", names, std::string(name));
}

}  // namespace subquad
