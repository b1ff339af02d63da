#include "places.hpp"

#include <algorithm>

namespace nearkv::model {

bool collide(std::vector<Place> places) {
  std::ranges::sort(places, {}, &Place::begin);
  uint64_t read_end = 0;
  uint64_t written_end = 0;
  for (const Place& place : places) {
    if (place.begin < written_end || (place.is_written && place.begin < read_end)) return true;
    uint64_t& end = place.is_written ? written_end : read_end;
    end = std::max(end, place.end);
  }
  return false;
}

}  // namespace nearkv::model
