// The one list of all arrays, shared by the code of all targets.
#include "optimized/base/buffer.h"

#include <mutex>
#include <set>

namespace subquad {
namespace {

std::set<GuardedMemory*>& Live() {
  static std::set<GuardedMemory*> live;
  return live;
}

std::mutex& Mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

int64_t& GuardedMemory::shift() {
  static int64_t bytes = 0;
  return bytes;
}

void GuardedMemory::PoisonAllWorkspaces() {
  std::lock_guard lock(Mutex());
  for (GuardedMemory* memory : Live())
    if (memory->poisonable_) memory->Poison();
}

int64_t GuardedMemory::CountBrokenGuards() {
  std::lock_guard lock(Mutex());
  int64_t broken = 0;
  for (GuardedMemory* memory : Live()) broken += !memory->GuardsIntact();
  return broken;
}

void GuardedMemory::Register() {
  std::lock_guard lock(Mutex());
  Live().insert(this);
}

void GuardedMemory::Unregister() {
  std::lock_guard lock(Mutex());
  Live().erase(this);
}

}  // namespace subquad
