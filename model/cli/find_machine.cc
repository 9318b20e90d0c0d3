#include "model/cli/find_machine.h"

#include <cstdlib>

#include "model/machine.h"

namespace ropeline {

std::vector<std::filesystem::path> ResultFolders() {
  std::vector<std::filesystem::path> folders = {std::filesystem::path(ROPELINE_SOURCE_DIR) / "results"};
  const char* data = std::getenv("XDG_DATA_HOME");
  const char* home = std::getenv("HOME");
  if (data != nullptr && *data != '\0') {
    folders.push_back(std::filesystem::path(data) / "ropeline/results");
  } else if (home != nullptr && *home != '\0') {
    folders.push_back(std::filesystem::path(home) / ".local/share/ropeline/results");
  }
  return folders;
}

std::optional<std::string> NewestResult(const std::vector<std::filesystem::path>& folders,
                                        const std::string& host_id) {
  std::optional<std::string> newest;
  std::string newest_date;
  for (const std::filesystem::path& folder : folders) {
    std::error_code error;
    for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
         it.increment(error)) {
      const std::filesystem::path file = it->path() / "bench.json";
      std::error_code no_file;
      if (!std::filesystem::is_regular_file(file, no_file)) continue;
      try {
        const Machine machine = ReadMachine(file.string());
        // Dates are ISO 8601 in UTC: their order is that of their text.
        if (machine.host_id != host_id || (newest && machine.date <= newest_date)) continue;
        newest = file.string();
        newest_date = machine.date;
      } catch (const BadInput&) {
        continue;
      }
    }
  }
  return newest;
}

}  // namespace ropeline
