// Handles Ctrl-C (SIGINT) and SIGTERM for long work that stops between two
// steps and keeps its results.
#pragma once

namespace subquad {

// Makes both signals only set a flag from now on, and ignores SIGPIPE.
void CatchInterrupts();

bool Interrupted();

}  // namespace subquad
