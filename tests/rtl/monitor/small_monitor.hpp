// nkv_chmu with exact counters, of the parameters that CMakeLists.txt gives its tests.
#pragma once

#include <cstdint>

#include "Vnkv_chmu.h"
#include "driver.hpp"

namespace nearkv::rtl_test {

using namespace chmu;
using Unit = Monitor<Vnkv_chmu>;

inline constexpr unsigned kEntries = 16;
inline constexpr unsigned kUnitLog2 = 16;
inline constexpr std::uint64_t kUnit = std::uint64_t{1} << kUnitLog2;
inline constexpr unsigned kEpochCycles = 200;  // Of 100 us
inline constexpr std::uint16_t kList = 0x88;   // One word of ranges lies before it.

}  // namespace nearkv::rtl_test
