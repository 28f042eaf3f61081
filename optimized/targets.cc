#include "optimized/targets.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>

#include "reference/base/invalid_input.h"

// Each is the one symbol of the files that are compiled for it. SUBQUAD_TARGETS
// reads EACH(avx2) EACH(..), the targets of this build.
#define EACH(name) extern "C" const subquad::Target subquad_target_##name;
SUBQUAD_TARGETS
#undef EACH

namespace subquad {
namespace {

struct Known {
  const char* name;
  bool (*here)();
};

// The best one first.
constexpr Known kKnown[] = {
#ifdef __x86_64__
    {"avx512", [] { return __builtin_cpu_supports("x86-64-v4") > 0; }},
    {"avx2", [] { return __builtin_cpu_supports("x86-64-v3") > 0; }},
    {"sse4", [] { return __builtin_cpu_supports("x86-64-v2") > 0; }},
#endif
#ifdef __aarch64__
    {"neon", [] { return true; }},
#endif
};

std::vector<const Target*> TargetsHere() {
#define EACH(name) &subquad_target_##name,
  const Target* const held[] = {SUBQUAD_TARGETS};
#undef EACH
  std::vector<const Target*> list;
  for (const Known& known : kKnown)
    for (const Target* target : held)
      if (known.name == std::string_view(target->name) && known.here())
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
    names += (names.empty() ? "" : " or ") + std::string(target->name);
  }
  const bool known = std::ranges::any_of(
      kKnown, [&](const Known& one) { return one.name == name; });
  throw InvalidInput(subject,
                     names + (known ? " on this processor, by this build" : ""),
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
