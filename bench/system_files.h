// Small files of /proc, /sys and /etc, below a root that tests replace. Nothing here throws: what cannot be
// read or understood is unknown.
#ifndef ROPELINE_BENCH_SYSTEM_FILES_H_
#define ROPELINE_BENCH_SYSTEM_FILES_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace ropeline {

// `path` ("/proc/meminfo" or "proc/meminfo") below `root`.
std::filesystem::path Below(const std::filesystem::path& root, std::string_view path);

// The file's text without blanks at its ends; "" where it is empty, missing or unreadable.
std::string ReadSystemFile(const std::filesystem::path& file);

std::string_view Trimmed(std::string_view text);

// A whole decimal number and nothing else; nullopt also where it does not fit 64 bits.
std::optional<uint64_t> ParseWhole(std::string_view text);

// What stands after the colon in the first line "key : value" of /proc/cpuinfo or /proc/meminfo; "" where
// none does.
std::string FieldOf(std::string_view text, std::string_view key);

// "madvise" of "always [madvise] never"; "" where no word is in brackets.
std::string BracketedWord(std::string_view text);

// One short line that any terminal and any JSON writer takes: other bytes than printable ASCII become '?',
// and a text of more than 100 is cut.
std::string Printable(std::string_view text);

// The CPU's name by /proc/cpuinfo; "" unknown.
std::string CpuModel(const std::string& root);

// The hypervisor flag of /proc/cpuinfo (x86 only: other CPUs have none).
bool HasHypervisorFlag(const std::string& root);

// MemTotal of /proc/meminfo in bytes; 0 unknown.
uint64_t MemTotalBytes(const std::string& root);

}  // namespace ropeline

#endif  // ROPELINE_BENCH_SYSTEM_FILES_H_
