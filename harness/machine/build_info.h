// Describes the build: sources, compiler and libraries. The build fills it in.
#pragma once

namespace subquad {

extern const char* const kVersion;
extern const char* const kCommit;  // "unknown" outside a git checkout
extern const bool kDirty;          // tracked files differ from the commit
// A digest of sources, compiler, flags and libraries. Programs with the same
// digest measure the same, wherever and at whichever commit they were built.
extern const char* const kProgram;
extern const char* const kCompiler;
extern const char* const kFlags;
extern const char* const kCudaCompiler;  // nvcc and architectures, or why not

}  // namespace subquad
