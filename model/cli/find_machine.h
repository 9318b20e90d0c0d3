// Where results of this host are looked for when the user names none.
#ifndef ROPELINE_MODEL_CLI_FIND_MACHINE_H_
#define ROPELINE_MODEL_CLI_FIND_MACHINE_H_

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "model/machine.h"

namespace ropeline {

// results/ of the checkout the program was built from, then $XDG_DATA_HOME/ropeline/results or, without that
// variable, $HOME/.local/share/ropeline/results.
std::vector<std::filesystem::path> ResultFolders();

// The result in a direct sub-folder of `folders` that was measured on the host `host_id` and has the
// newest date. Files that cannot be read as results are passed over. Nothing where there is none.
std::optional<Machine> NewestResult(const std::vector<std::filesystem::path>& folders,
                                    const std::string& host_id);

// The same among results with rows of peers, which also lie in a folder peers of such a sub-folder.
std::optional<Machine> NewestPeersResult(const std::vector<std::filesystem::path>& folders,
                                         const std::string& host_id);

// The same among results with executed steps, which also lie in a folder steps of such a sub-folder.
std::optional<Machine> NewestStepsResult(const std::vector<std::filesystem::path>& folders,
                                         const std::string& host_id);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_CLI_FIND_MACHINE_H_
