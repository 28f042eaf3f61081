#include "harness/base/interrupts.h"

#include <unistd.h>

#include <csignal>
#include <string_view>

namespace subquad {
namespace {

volatile std::sig_atomic_t interrupted = 0;
bool on_terminal = false;

void Catch(int) {
  constexpr std::string_view kMessage =
      "\nfinishing the current step; Ctrl-C again stops at once\n";
  interrupted = 1;
  if (on_terminal &&
      ::write(STDERR_FILENO, kMessage.data(), kMessage.size()) < 0)
    return;
}

}  // namespace

bool Interrupted() { return interrupted != 0; }

void CatchInterrupts() {
  on_terminal = ::isatty(STDERR_FILENO) == 1;
  struct sigaction action {};
  action.sa_handler = Catch;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

}  // namespace subquad
