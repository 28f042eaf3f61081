// Where commands write: never over what nobody meant to lose.
#pragma once

#include <filesystem>
#include <string>

namespace subquad {

// The file that a path names, links followed. Throws InvalidInput, which begins
// with `option`, where it is there and is no regular file, or its folder does
// not exist or cannot be written, or where it exists and `instead` is not
// empty: the words for what to do then ("--force, which replaces it").
std::filesystem::path OutputFile(const std::string& option,
                                 const std::filesystem::path& path,
                                 const std::string& instead);

// What commands that replace a file say.
inline constexpr const char* kForceReplaces = "--force, which replaces it";

// `instead` for a command with a flag --force.
inline std::string Unless(bool force) { return force ? "" : kForceReplaces; }

// Writes through a temporary name in the same folder, so that the file is
// either the old one or the whole new one; a link is followed. Throws
// std::runtime_error with the system's words (a full disk, say).
void WriteFileAtomically(const std::filesystem::path& path,
                         const std::string& text);

// Writes all of the text to an open file and waits until it is on the disk.
// `path` is for messages.
void WriteToDisk(int file, const std::string& text,
                 const std::filesystem::path& path);

}  // namespace subquad
