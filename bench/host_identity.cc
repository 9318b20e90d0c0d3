// Names of the machine: one to read (the results folder), one to compare (does this result come from this
// host).
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string_view>

#include "bench/system_files.h"
#include "bench/topology.h"

namespace ropeline {
namespace {

constexpr size_t kLongestModel = 48;  // as x86's brand string

bool IsAsciiAlnum(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() > end.size() && text.substr(text.size() - end.size()) == end;
}

// Words that tell no CPU from another: "CPU", "16-Core" (the number of cores follows anyway), "12th Gen".
bool IsNoise(std::string_view word) {
  if (word == "cpu" || word == "processor" || word == "gen" || EndsWith(word, "-core")) return true;
  const bool ordinal =
      EndsWith(word, "th") || EndsWith(word, "st") || EndsWith(word, "nd") || EndsWith(word, "rd");
  return ordinal && std::all_of(word.begin(), word.end() - 2, [](char c) { return c >= '0' && c <= '9'; });
}

std::string LowerWithoutMarks(std::string_view model) {
  std::string text(model);
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const std::string_view mark : {"(r)", "(tm)", "(c)"}) {
    for (size_t at; (at = text.find(mark)) != text.npos;) {
      std::fill_n(text.begin() + static_cast<std::ptrdiff_t>(at), mark.size(), ' ');
    }
  }
  return text;
}

std::string ModelSlug(std::string_view model) {
  const std::string text = LowerWithoutMarks(model);
  std::string slug;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of(" \t\n", at), text.size());
    const std::string_view word = std::string_view(text).substr(at, end - at);
    at = end + 1;
    if (word == "with" || word == "w/") break;  // "with Radeon Graphics"
    if (IsNoise(word)) continue;
    slug += '-';
    for (const char c : word) slug += IsAsciiAlnum(c) ? c : '-';
  }
  slug.erase(std::unique(slug.begin(), slug.end(), [](char a, char b) { return a == '-' && b == '-'; }),
             slug.end());
  if (!slug.empty() && slug.front() == '-') slug.erase(0, 1);
  slug = slug.substr(0, kLongestModel);
  while (!slug.empty() && slug.back() == '-') slug.pop_back();
  return slug.empty() ? std::string("unknown-cpu") : slug;
}

// FNV-1a, 64 bits: the same everywhere and for ever, unlike std::hash.
uint64_t Fnv1a(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// What a kernel counts is a little less than what is built in, and differs by some MiB from one kernel to the
// next. Rounded up to an eighth of a power of two it is what was built in: 23.5 GiB are 24, 503 GiB are 512.
uint64_t InstalledMemory(uint64_t bytes) {
  const uint64_t step = std::bit_floor(bytes) / 8;
  return step == 0 ? 0 : (bytes - 1) / step * step + step;
}

}  // namespace

std::string MachineSlug(const Topology& topology) {
  return fmt::format("{}-{}c", ModelSlug(topology.cpu_model), topology.cores.size());
}

std::string HostId(const Topology& topology, const std::string& root) {
  std::string name;
  for (const char* file :
       {"etc/machine-id", "var/lib/dbus/machine-id", "proc/sys/kernel/hostname", "etc/hostname"}) {
    name = ReadSystemFile(Below(root, file));
    // systemd writes "uninitialized" into images that were never booted.
    if (!name.empty() && name != "uninitialized") break;
  }
  return fmt::format("{:016x}", Fnv1a(fmt::format("{}\n{}\n{}", name, topology.cpu_model,
                                                  InstalledMemory(topology.memory_bytes))));
}

}  // namespace ropeline
