// One line of the table of faults, for whoever runs the tests to collect.
#pragma once

#include <cstdint>
#include <iostream>
#include <string>

namespace nearkv::test {

/// Prints how many times a fault was tried, and how many times nothing was lost.
inline void report_fault(const std::string& fault, std::uint64_t tried, std::uint64_t survived,
                         std::uint64_t lost_objects) {
  std::cout << "FAULT {\"fault\": \"" << fault << "\", \"tried\": " << tried
            << ", \"survived\": " << survived << ", \"lost_objects\": " << lost_objects << "}\n"
            << std::flush;
}

}  // namespace nearkv::test
