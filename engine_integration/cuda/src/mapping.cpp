#include "mapping.hpp"

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

namespace nearkv::cuda {

bool is_device_memory(const void* place) {
  const auto address = reinterpret_cast<std::uintptr_t>(place);
  std::ifstream mappings("/proc/self/smaps");
  bool is_it = false;
  for (std::string line; std::getline(mappings, line);) {
    unsigned long begin = 0;
    unsigned long end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      is_it = begin <= address && address < end;
    } else if (is_it && line.starts_with("VmFlags:")) {
      std::istringstream flags(line);
      for (std::string flag; flags >> flag;) {
        if (flag == "io" || flag == "pf") return true;
      }
      return false;
    }
  }
  return false;
}

void touch_pages(const void* memory, std::size_t bytes) {
  const auto* const first = static_cast<const volatile unsigned char*>(memory);
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  for (std::size_t at = 0; at < bytes; at += page) (void)first[at];
}

}  // namespace nearkv::cuda
