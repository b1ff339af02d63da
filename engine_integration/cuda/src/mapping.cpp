#include "mapping.hpp"

#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

namespace nearkv::cuda {

namespace {

/// Reads `begin-end ` in hexadecimal, with which the lines of a mapping begin.
bool read_range(const std::string& line, std::uintptr_t* begin, std::uintptr_t* end) {
  const char* const last = line.data() + line.size();
  const auto [dash, first_error] = std::from_chars(line.data(), last, *begin, 16);
  if (first_error != std::errc{} || dash == last || *dash != '-') return false;
  const auto [space, second_error] = std::from_chars(dash + 1, last, *end, 16);
  return second_error == std::errc{} && space != last && *space == ' ';
}

}  // namespace

bool is_device_memory(const void* place) {
  const auto address = reinterpret_cast<std::uintptr_t>(place);
  std::ifstream mappings("/proc/self/smaps");
  bool is_it = false;
  for (std::string line; std::getline(mappings, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    if (read_range(line, &begin, &end)) {
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
