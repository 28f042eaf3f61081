#include "harness/base/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "reference/base/invalid_input.h"

namespace subquad {
namespace {

namespace fs = std::filesystem;

// Returns the end of a chain of links, which need not exist.
fs::path Followed(const std::string& option, const fs::path& path) {
  constexpr int kLongest = 40;
  fs::path end = path;
  std::error_code error;
  for (int links = 0; fs::is_symlink(fs::symlink_status(end, error)); ++links) {
    if (links == kLongest)
      throw InvalidInput(option, "a file", path.string() + ", a loop of links");
    const fs::path next = fs::read_symlink(end, error);
    end = next.is_absolute() ? next : end.parent_path() / next;
  }
  return end;
}

std::runtime_error CannotWrite(const fs::path& path) {
  return std::runtime_error(
      fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)));
}

}  // namespace

void CheckOutputFolder(const std::string& option, const fs::path& path) {
  if (path.empty()) throw InvalidInput(option, "the path of a folder", "none");
  std::error_code error;
  fs::path folder = path;
  if (!fs::exists(path, error)) {
    fs::path plain = path.lexically_normal();
    if (!plain.has_filename()) plain = plain.parent_path();
    folder = plain.has_parent_path() ? plain.parent_path() : ".";
    if (!fs::exists(folder, error))
      throw InvalidInput(option, "a folder inside a folder that exists",
                         path.string());
  }
  if (!fs::is_directory(folder, error))
    throw InvalidInput(option, "a folder", "the file " + folder.string());
  if (::access(folder.c_str(), W_OK) != 0)
    throw InvalidInput(option, "a folder that can be written", folder.string());
}

fs::path OutputFile(const std::string& option, const fs::path& path,
                    const std::string& instead) {
  if (path.empty()) throw InvalidInput(option, "the path of a file", "none");
  const fs::path file = Followed(option, path);
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (fs::is_directory(status))
    throw InvalidInput(option, "a file", "the folder " + path.string());
  if (fs::exists(status) && !fs::is_regular_file(status))
    throw InvalidInput(option, "a regular file",
                       path.string() + ", which is not one");
  const fs::path folder = file.has_parent_path() ? file.parent_path() : ".";
  if (!fs::is_directory(folder, error))
    throw InvalidInput(option, "a file in a folder that exists", path.string());
  if (::access(folder.c_str(), W_OK) != 0)
    throw InvalidInput(option, "a folder that can be written", folder.string());
  if (fs::exists(status) && !instead.empty())
    throw InvalidInput(option, "a file that does not exist, or " + instead,
                       path.string());
  return file;
}

void RefuseInput(const std::string& option, const fs::path& path,
                 const std::vector<std::string>& inputs) {
  std::error_code error;
  for (const std::string& input : inputs)
    if (fs::equivalent(path, input, error))
      throw InvalidInput(option, "a file other than those that are read",
                         path.string());
}

void WriteToDisk(int file, const std::string& text, const fs::path& path) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = ::write(file, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw CannotWrite(path);
    done += static_cast<size_t>(count);
  }
  if (::fsync(file) != 0) throw CannotWrite(path);
}

void WriteFileAtomically(const fs::path& path, const std::string& text) {
  const fs::path end = Followed("--out", path);
  // Uses a unique name, so that no file of another process is overwritten.
  const fs::path temporary =
      fmt::format("{}.{}.part", end.string(), ::getpid());
  const int file =
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
  if (file < 0) throw CannotWrite(end);
  try {
    WriteToDisk(file, text, end);
    if (::close(file) != 0) throw CannotWrite(end);
    if (::rename(temporary.c_str(), end.c_str()) != 0) throw CannotWrite(end);
  } catch (...) {
    ::close(file);
    ::unlink(temporary.c_str());
    throw;
  }
}

}  // namespace subquad
