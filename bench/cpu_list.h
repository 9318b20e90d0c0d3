// Lists of logical CPUs as the kernel writes them: "0-3,8" is {0, 1, 2, 3, 8}.
#ifndef ROPELINE_BENCH_CPU_LIST_H_
#define ROPELINE_BENCH_CPU_LIST_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ropeline {

// Sorted, each CPU once. The empty text is the empty list, as the kernel writes it. Blanks around the text
// are ignored. nullopt where the text is not such a list or names a CPU number of more than six digits.
std::optional<std::vector<int>> ParseCpuList(std::string_view text);

// The shortest such text; the CPUs may come in any order.
std::string FormatCpuList(std::vector<int> cpus);

}  // namespace ropeline

#endif  // ROPELINE_BENCH_CPU_LIST_H_
