// Handles Ctrl-C (SIGINT) and SIGTERM for long work that stops between two
// steps and keeps its results.
#pragma once

namespace subquad {

// Makes the first of each of these signals only set a flag, and ignores
// SIGPIPE. The second one ends the process, as without this function; a
// terminal is told so.
void CatchInterrupts();

bool Interrupted();

}  // namespace subquad
