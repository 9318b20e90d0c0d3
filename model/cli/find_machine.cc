#include "model/cli/find_machine.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <utility>

namespace ropeline {
namespace {

// Those of `names` that there are in every direct sub-folder.
std::vector<std::filesystem::path> FilesIn(const std::vector<std::filesystem::path>& folders,
                                           std::initializer_list<const char*> names) {
  std::vector<std::filesystem::path> files;
  for (const std::filesystem::path& folder : folders) {
    std::error_code error;
    for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
         it.increment(error)) {
      for (const char* name : names) {
        const std::filesystem::path file = it->path() / name;
        std::error_code no_file;
        if (std::filesystem::is_regular_file(file, no_file)) files.push_back(file);
      }
    }
  }
  return files;
}

// The newest of `host_id` that is `wanted`; files of megabytes are read from the newest on, until one will
// do.
std::optional<Machine> Newest(const std::vector<std::filesystem::path>& files, const std::string& host_id,
                              const std::function<bool(const Machine&)>& wanted) {
  std::vector<std::pair<std::string, std::string>> of_host;  // date, file
  for (const std::filesystem::path& file : files) {
    const auto head = ReadMachineHead(file.string());
    if (head && head->host_id == host_id) of_host.emplace_back(head->date, file.string());
  }
  std::stable_sort(of_host.begin(), of_host.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [date, file] : of_host) {
    try {
      Machine machine = ReadMachine(file);
      if (wanted(machine)) return machine;
    } catch (const BadInput&) {
      continue;
    }
  }
  return std::nullopt;
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

std::optional<Machine> NewestResult(const std::vector<std::filesystem::path>& folders,
                                    const std::string& host_id) {
  return Newest(FilesIn(folders, {"bench.json"}), host_id, [](const Machine&) { return true; });
}

std::optional<Machine> NewestPeersResult(const std::vector<std::filesystem::path>& folders,
                                         const std::string& host_id) {
  return Newest(FilesIn(folders, {"bench.json", "peers/bench.json"}), host_id,
                [](const Machine& machine) { return !machine.peer_rows.empty(); });
}

std::optional<Machine> NewestStepsResult(const std::vector<std::filesystem::path>& folders,
                                         const std::string& host_id) {
  return Newest(FilesIn(folders, {"bench.json", "steps/bench.json"}), host_id, [](const Machine& machine) {
    return std::any_of(machine.rows.begin(), machine.rows.end(),
                       [](const MeasuredRow& row) { return row.name.family == "step"; });
  });
}

}  // namespace ropeline
