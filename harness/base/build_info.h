// What was built from what, filled in by the build.
#pragma once

namespace subquad {

extern const char* const kCommit;
extern const bool kDirty;  // tracked files were changed since the commit
extern const char* const kCompiler;
extern const char* const kFlags;

}  // namespace subquad
