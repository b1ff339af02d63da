// Places in the window that one command reads and writes.
#pragma once

#include <cstdint>
#include <vector>

namespace nearkv::model {

// Bytes [begin, end).
struct Place {
  uint64_t begin;
  uint64_t end;
  bool is_written;
};

// Whether a place that is written shares a byte with any other; places that are read may overlap.
bool collide(std::vector<Place> places);

}  // namespace nearkv::model
