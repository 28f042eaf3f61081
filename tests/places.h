// Paths of the source tree and the program, for tests. Only `places.cc` is
// compiled with these paths, so that another clone finds all other files in the
// compiler's cache.
#pragma once

namespace subquad {

extern const char kSourceFolder[];  // of the repository
extern const char kGoldenFolder[];  // tests/golden
extern const char kProgramFile[];   // build/subquad

}  // namespace subquad
