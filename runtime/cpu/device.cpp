#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "runtime/backend.h"

namespace giro::cpu {

DeviceInfo device_info() {
  const long pages = sysconf(_SC_PHYS_PAGES), page_size = sysconf(_SC_PAGE_SIZE);
  const bool known = pages > 0 && page_size > 0;
  return {Device::cpu(), "CPU", known ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page_size) : 0};
}

std::optional<std::size_t> free_memory() {
  // On Linux, includes the memory that caches would give back.
  std::ifstream meminfo("/proc/meminfo");
  for (std::string line; std::getline(meminfo, line);) {
    unsigned long long kilobytes = 0;
    if (std::sscanf(line.c_str(), "MemAvailable: %llu kB", &kilobytes) == 1) return std::size_t{1'024} * kilobytes;
  }
  const long pages = sysconf(_SC_AVPHYS_PAGES), page_size = sysconf(_SC_PAGE_SIZE);
  if (pages < 0 || page_size < 0) return {};
  return static_cast<std::size_t>(pages) * static_cast<std::size_t>(page_size);
}

}  // namespace giro::cpu
