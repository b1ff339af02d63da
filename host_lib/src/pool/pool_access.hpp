// Pools over memory that the library has opened already.
#pragma once

#include <memory>
#include <string>

#include "nearkv/pool.hpp"
#include "pool/pool_memory.hpp"
#include "pool/pool_plan.hpp"

namespace nearkv {

/// What stands behind Pool::create and Pool::open.
struct PoolAccess {
  /// Takes up the sequences in `memory`, which is the device's, made or opened by `plan`; in
  /// memory that has just been formatted there are none.
  static Status open(std::shared_ptr<Device> device, const Pool::Options& options,
                     const PoolPlan& plan, std::shared_ptr<PoolMemory> memory,
                     std::unique_ptr<Pool>* pool, std::string* reason);
};

}  // namespace nearkv
