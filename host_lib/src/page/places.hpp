// Places in the window that one command reads and writes.
#pragma once

#include <cstdint>
#include <vector>

namespace nearkv {

/// Bytes [begin, end) of the window.
struct Place {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool is_written = false;
};

/// Whether a place that is written shares a byte with any other; places that are read may overlap.
[[nodiscard]] bool collide(std::vector<Place> places);

}  // namespace nearkv
