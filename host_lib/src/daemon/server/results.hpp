// Structures on their way to a client.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "nearkv/status.hpp"

namespace nearkv {

/// Copies structures to a result, as many as fit; gives how many.
template <typename Struct, typename List, typename Convert>
std::uint32_t put_all(std::span<std::byte> result, const List& list, std::size_t first,
                      Convert convert) {
  std::uint32_t count = 0;
  for (std::size_t i = first; i < list.size() && result.size() >= sizeof(Struct); ++i) {
    const Struct wire = convert(list[i]);
    std::memcpy(result.data(), &wire, sizeof(wire));
    result = result.subspan(sizeof(wire));
    ++count;
  }
  return count;
}

template <typename Struct>
Status put(std::span<std::byte> result, const Struct& wire) {
  if (result.size() < sizeof(wire)) return Status::kBadArgument;
  std::memcpy(result.data(), &wire, sizeof(wire));
  return Status::kOk;
}

}  // namespace nearkv
