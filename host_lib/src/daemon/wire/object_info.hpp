// What an object's record says, as it crosses the window.
#pragma once

#include <algorithm>
#include <cstring>

#include "nearkv/object_store.hpp"
#include "nkv_abi.h"

namespace nearkv {

[[nodiscard]] inline nkv_daemon_object_info to_wire(const ObjectInfo& info) {
  nkv_daemon_object_info wire{};
  wire.number = info.number;
  wire.namespace_number = info.namespace_number;
  wire.bytes = info.bytes;
  wire.tenant = info.tenant;
  wire.parts = info.parts;
  wire.generation = info.generation;
  wire.created_s = info.created_s;
  wire.expires_s = info.expires_s;
  wire.extents = info.extents;
  wire.key_bytes = static_cast<std::uint8_t>(std::min(info.key.size(), sizeof(wire.key)));
  wire.key_is_digest = info.key_is_digest ? 1 : 0;
  wire.leased = info.leased ? 1 : 0;
  std::memcpy(wire.key, info.key.data(), wire.key_bytes);
  return wire;
}

[[nodiscard]] inline ObjectInfo from_wire(const nkv_daemon_object_info& wire) {
  ObjectInfo info;
  info.number = wire.number;
  info.namespace_number = wire.namespace_number;
  info.tenant = wire.tenant;
  const auto key = std::as_bytes(std::span(wire.key))
                       .first(std::min<std::size_t>(wire.key_bytes, sizeof(wire.key)));
  info.key.assign(key.begin(), key.end());
  info.key_is_digest = wire.key_is_digest != 0;
  info.leased = wire.leased != 0;
  info.bytes = wire.bytes;
  info.parts = wire.parts;
  info.extents = wire.extents;
  info.generation = wire.generation;
  info.created_s = wire.created_s;
  info.expires_s = wire.expires_s;
  return info;
}

}  // namespace nearkv
