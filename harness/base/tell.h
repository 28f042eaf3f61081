// Messages on standard error. Nobody may be listening (a closed stream, a full
// disk, a pipe whose reader is gone): that is no reason to stop.
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

// Opens the standard streams that were closed when the program started, so that
// no other file gets their numbers: standard error on nothing, standard output
// so that writing to it fails.
void OpenClosedStreams();

}  // namespace subquad
