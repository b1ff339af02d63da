// The library's edge: nothing throws past it.
#pragma once

#include <new>

#include "nearkv/status.hpp"

namespace nearkv {

/// Runs `body` and turns what it throws into a status: kOutOfMemory, or kInternal for what should
/// not happen.
template <typename Body>
Status at_edge(Body&& body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return Status::kOutOfMemory;
  } catch (...) {
    return Status::kInternal;
  }
}

}  // namespace nearkv
