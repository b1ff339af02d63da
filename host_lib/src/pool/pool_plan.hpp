// Where everything lies in a pool of some size and shape.
#pragma once

#include <cstdint>
#include <string>

#include "nearkv/pool.hpp"
#include "nkv_abi.h"

namespace nearkv {

struct PoolPlan {
  nkv_pool_header header{};
  std::uint64_t staging_bytes = 0;
  std::uint64_t lists_bytes = 0;

  /// kBadArgument or kPoolFull with a reason. A shape without layers asks for no sequences.
  static Status make(std::uint64_t memory_bytes, const Pool::Options& options, PoolPlan* plan,
                     std::string* reason);

  /// Size of an attendable page; `raw`: with rows that DELTA4 does not hold.
  static std::uint32_t page_bytes(const ModelShape& shape, bool raw, bool codes);

  /// The same of the largest page that a pool of this shape may hold.
  static std::uint32_t most_page_bytes(const ModelShape& shape) {
    return page_bytes(shape, /*raw=*/true, /*codes=*/true);
  }
};

}  // namespace nearkv
