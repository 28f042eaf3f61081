#include "harness/base/data_folder.h"

#include <cstdlib>
#include <string>

#include "reference/base/invalid_input.h"

namespace subquad {

namespace fs = std::filesystem;

fs::path DataFolder() {
  std::error_code error;
  if (const char* named = std::getenv("SUBQUAD_DATA"); named && *named) {
    if (!fs::is_directory(fs::path(named) / "reports", error))
      throw InvalidInput("SUBQUAD_DATA", "a folder that contains reports/",
                         "'" + std::string(named) + "'");
    return named;
  }
  fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (int level = 0; level < 3 && !folder.empty(); ++level) {
    fs::path data = folder / "share" / "subquad";
    if (fs::is_directory(data / "reports", error)) return data;
    folder = folder.parent_path();
  }
  return {};
}

}  // namespace subquad
