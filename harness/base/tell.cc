#include "harness/base/tell.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace subquad {

void TellText(std::string_view text) {
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  while (!text.empty()) {
    const ssize_t count = ::write(STDERR_FILENO, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.remove_prefix(static_cast<size_t>(count));
  }
  if (before != SIG_ERR) std::signal(SIGPIPE, before);
}

void OpenClosedStreams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF)
      // open() returns the lowest free number, which is this stream's.
      if (::open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY) <
          0)
        return;
}

}  // namespace subquad
