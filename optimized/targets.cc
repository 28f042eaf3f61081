#include "optimized/targets.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>

#include "optimized/base/processor.h"
#include "reference/base/invalid_input.h"

// Declares each target, the only public symbol of the files compiled for it.
// SUBQUAD_TARGETS reads EACH(avx2) EACH(..), the targets of this build.
#define EACH(name) extern "C" const subquad::Target subquad_target_##name;
SUBQUAD_TARGETS
#undef EACH

namespace subquad {
namespace {

std::vector<const Target*> TargetsHere() {
#define EACH(name) &subquad_target_##name,
  const Target* const held[] = {SUBQUAD_TARGETS};
#undef EACH
  std::vector<const Target*> list;
  for (const KnownTarget& known : kKnownTargets)
    for (const Target* target : held)
      if (known.name == std::string_view(target->name) && known.here &&
          known.here())
        list.push_back(target);
  if (!list.empty()) return list;
  std::string names;
  for (const Target* target : held)
    names += (names.empty() ? "" : " or ") + std::string(target->name);
  throw InvalidInput("processor",
                     "one with " + names + " (this build has no other target)",
                     "none of them");
}

const Target& Named(std::string_view name, const char* subject) {
  std::string names;
  for (const Target* target : Targets()) {
    if (target->name == name) return *target;
    names += (names.empty() ? "one of " : ", ") + std::string(target->name);
  }
  const bool known = std::ranges::any_of(
      kKnownTargets,
      [&](const KnownTarget& target) { return target.name == name; });
  throw InvalidInput(
      subject,
      names + (known ? ", which this processor and build support" : ""),
      "'" + std::string(name) + "'");
}

std::atomic<const Target*> chosen = nullptr;

}  // namespace

const std::vector<const Target*>& Targets() {
  static const std::vector<const Target*> here = TargetsHere();
  return here;
}

const Target& CurrentTarget() {
  if (const Target* target = chosen) return *target;
  const char* named = std::getenv("SUBQUAD_TARGET");
  const Target& target =
      named && *named ? Named(named, "SUBQUAD_TARGET") : *Targets().front();
  chosen = &target;
  return target;
}

void ChooseTarget(std::string_view name) {
  const Target& target = Named(name, "--target");
  setenv("SUBQUAD_TARGET", target.name, 1);
  chosen = &target;
}

}  // namespace subquad
