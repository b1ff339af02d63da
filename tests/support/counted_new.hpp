// How often this program has asked for memory. Link counted_new.cpp, which counts.
#pragma once

#include <cstddef>

namespace nearkv::test {

/// Calls of operator new up to now, by all threads.
[[nodiscard]] std::size_t allocations();

}  // namespace nearkv::test
