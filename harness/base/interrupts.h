// Ctrl-C (SIGINT) and SIGTERM, for long work that stops between two steps and
// keeps what it has.
#pragma once

namespace subquad {

// From here on both signals only set a flag; SIGPIPE is ignored.
void CatchInterrupts();

bool Interrupted();

}  // namespace subquad
