#include "model/cli/find_machine.h"

#include <cstdlib>
#include <functional>

#include "model/machine.h"

namespace ropeline {
namespace {

// `name` in every direct sub-folder.
std::vector<std::filesystem::path> FilesIn(const std::vector<std::filesystem::path>& folders,
                                           const char* name) {
  std::vector<std::filesystem::path> files;
  for (const std::filesystem::path& folder : folders) {
    std::error_code error;
    for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
         it.increment(error)) {
      const std::filesystem::path file = it->path() / name;
      std::error_code no_file;
      if (std::filesystem::is_regular_file(file, no_file)) files.push_back(file);
    }
  }
  return files;
}

std::optional<std::string> Newest(const std::vector<std::filesystem::path>& files,
                                  const std::function<bool(const Machine&)>& wanted) {
  std::optional<std::string> newest;
  std::string newest_date;
  for (const std::filesystem::path& file : files) {
    try {
      const Machine machine = ReadMachine(file.string());
      // Dates are ISO 8601 in UTC: their order is that of their text.
      if (!wanted(machine) || (newest && machine.date <= newest_date)) continue;
      newest = file.string();
      newest_date = machine.date;
    } catch (const BadInput&) {
      continue;
    }
  }
  return newest;
}

}  // namespace

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
  return Newest(FilesIn(folders, "bench.json"),
                [&](const Machine& machine) { return machine.host_id == host_id; });
}

std::optional<std::string> NewestPeersResult(const std::vector<std::filesystem::path>& folders,
                                             const std::string& host_id) {
  std::vector<std::filesystem::path> files = FilesIn(folders, "bench.json");
  const std::vector<std::filesystem::path> apart = FilesIn(folders, "peers/bench.json");
  files.insert(files.end(), apart.begin(), apart.end());
  return Newest(files, [&](const Machine& machine) {
    return machine.host_id == host_id && !machine.peer_rows.empty();
  });
}

}  // namespace ropeline
