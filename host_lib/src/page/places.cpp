#include "page/places.hpp"

#include <algorithm>

namespace nearkv {

bool collide(std::vector<Place> places) {
  std::ranges::sort(places, {}, &Place::begin);
  std::uint64_t read_end = 0;
  std::uint64_t written_end = 0;
  for (const Place& place : places) {
    if (place.begin < written_end || (place.is_written && place.begin < read_end)) return true;
    std::uint64_t& end = place.is_written ? written_end : read_end;
    end = std::max(end, place.end);
  }
  return false;
}

}  // namespace nearkv
