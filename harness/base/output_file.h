// Checks and writes the output files of commands. An existing file is never
// overwritten unless the user asked for it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace subquad {

// Returns the file that a path names, with links resolved. Throws InvalidInput,
// which begins with `option`, if the path is not a regular file, if its folder
// does not exist or is not writable, or if the file exists and `instead` is not
// empty. `instead` says what to do in that case ("--force, which replaces it").
std::filesystem::path OutputFile(const std::string& option,
                                 const std::filesystem::path& path,
                                 const std::string& instead);

// Throws InvalidInput, which begins with `option`, unless the path is a folder
// that can be written, or names one that can be created in a folder that
// exists.
void CheckOutputFolder(const std::string& option,
                       const std::filesystem::path& path);

// Throws InvalidInput, which begins with `option`, if the path is one of the
// files that the command reads.
void RefuseInput(const std::string& option, const std::filesystem::path& path,
                 const std::vector<std::string>& inputs);

// Advice of commands that can replace a file.
inline constexpr const char* kForceReplaces = "--force, which replaces it";

// Returns `instead` for a command with a flag --force.
inline std::string Unless(bool force) { return force ? "" : kForceReplaces; }

// Writes under a temporary name in the same folder and renames, so that the
// file is either the old one or the complete new one; links are followed.
// Throws std::runtime_error with the system's message (for example, a full
// disk).
void WriteFileAtomically(const std::filesystem::path& path,
                         const std::string& text);

// Writes all of the text to an open file and waits until it is on the disk.
// `path` is for messages.
void WriteToDisk(int file, const std::string& text,
                 const std::filesystem::path& path);

}  // namespace subquad
