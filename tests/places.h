// Folders of the source tree and the program, for tests. Of all that is
// compiled, `places.cc` alone knows their paths, so that another clone finds
// the rest in the compiler's cache.
#pragma once

namespace subquad {

extern const char kSourceFolder[];  // of the repository
extern const char kGoldenFolder[];  // tests/golden
extern const char kProgramFile[];   // build/subquad

}  // namespace subquad
