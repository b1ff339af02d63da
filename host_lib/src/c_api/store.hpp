// What the handle of nearkv_store.h is.
#pragma once

#include <cstddef>
#include <memory>

#include "nearkv/object_store.hpp"
#include "nearkv_store.h"

struct nearkv_store {
  std::unique_ptr<nearkv::ObjectStore> store;
};

namespace nearkv {

/// A key of the C API; null is an empty one.
inline Key key_of(const void* first, std::size_t bytes) {
  return {static_cast<const std::byte*>(first), first == nullptr ? 0 : bytes};
}

}  // namespace nearkv
