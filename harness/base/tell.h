// Prints messages on standard error. A closed stream, a full disk or a pipe
// without a reader is ignored, since the work can go on without messages.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace subquad {

// Writes the text, or as much of it as can be written.
void TellText(std::string_view text);

template <typename... Values>
void Tell(fmt::format_string<Values...> format, Values&&... values) {
  TellText(fmt::format(format, std::forward<Values>(values)...));
}

// Opens standard streams that were closed when the program started, so that no
// other file gets their numbers. Standard error then discards its text, and
// writing to standard output fails.
void OpenClosedStreams();

}  // namespace subquad
