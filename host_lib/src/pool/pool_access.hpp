// Pools over memory that the library has opened already.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nearkv/in_place.hpp"
#include "nearkv/pool.hpp"
#include "pool/pool_memory.hpp"
#include "pool/pool_plan.hpp"

namespace nearkv {

/// What stands behind Pool::create, Pool::open and rows_in_place.
struct PoolAccess {
  /// Takes up the sequences in `memory`, which is the device's, made or opened by `plan`; in
  /// memory that has just been formatted there are none.
  static Status open(std::shared_ptr<Device> device, const Pool::Options& options,
                     const PoolPlan& plan, std::shared_ptr<PoolMemory> memory,
                     std::unique_ptr<Pool>* pool, std::string* reason);

  /// What nearkv::rows_in_place() does.
  static Status rows_in_place(Pool& pool, std::uint64_t sequence, std::uint16_t layer,
                              std::uint16_t kv_head, std::vector<RowsOfPage>* pages);
};

}  // namespace nearkv
