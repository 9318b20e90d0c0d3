// For tests: hwloc's XML, for machines that its synthetic descriptions cannot say (hybrid cores, absent CPU
// numbers).
#ifndef ROPELINE_BENCH_TOPOLOGY_XML_H_
#define ROPELINE_BENCH_TOPOLOGY_XML_H_

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ropeline {

// One <object> with its CPUs as a bit mask; `inside` are its <info> and <object> elements.
inline std::string XmlObject(std::string_view type, int os_index, unsigned cpus, std::string_view inside = "",
                             std::string_view attributes = "") {
  static int gp_index = 0;  // hwloc wants them distinct
  return fmt::format(
      "<object type=\"{}\" os_index=\"{}\" cpuset=\"{:#010x}\" complete_cpuset=\"{:#010x}\" nodeset=\"0x1\" "
      "complete_nodeset=\"0x1\" gp_index=\"{}\" {}>{}</object>\n",
      type, os_index, cpus, cpus, ++gp_index, attributes, inside);
}

inline std::string XmlCore(int os_index, const std::vector<int>& siblings) {
  std::string inside;
  unsigned cpus = 0;
  for (const int cpu : siblings) {
    inside += XmlObject("PU", cpu, 1u << cpu);
    cpus |= 1u << cpu;
  }
  return XmlObject("Core", os_index, cpus, inside);
}

inline std::string XmlL2(int os_index, unsigned cpus, uint64_t size_bytes, std::string_view inside) {
  return XmlObject(
      "L2Cache", os_index, cpus, inside,
      fmt::format("cache_size=\"{}\" depth=\"2\" cache_linesize=\"64\" cache_associativity=\"16\" "
                  "cache_type=\"0\"",
                  size_bytes));
}

// Without an efficiency hwloc ranks the kinds by what they say of themselves.
inline std::string XmlKind(unsigned cpus, std::string_view name, std::string_view value,
                           int efficiency = -1) {
  return fmt::format(
      "<cpukind cpuset=\"{:#010x}\" forced_efficiency=\"{}\"><info name=\"{}\" value=\"{}\"/></cpukind>\n",
      cpus, efficiency, name, value);
}

// A machine of one package and one NUMA node with 16 GiB; all CPUs are allowed unless it says which.
inline std::string XmlMachine(unsigned cpus, std::string_view in_package, std::string_view kinds = "",
                              std::optional<unsigned> allowed = std::nullopt) {
  const std::string node = XmlObject("NUMANode", 0, cpus, "", "local_memory=\"17179869184\"");
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
         "<topology version=\"2.0\">\n" +
         XmlObject(
             "Machine", 0, cpus, node + XmlObject("Package", 0, cpus, in_package),
             fmt::format("allowed_cpuset=\"{:#010x}\" allowed_nodeset=\"0x1\"", allowed.value_or(cpus))) +
         std::string(kinds) + "</topology>\n";
}

}  // namespace ropeline

#endif  // ROPELINE_BENCH_TOPOLOGY_XML_H_
