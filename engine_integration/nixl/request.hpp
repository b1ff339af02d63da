// One transfer: descriptors of NIXL as objects of a store.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend_engine.h"
#include "nearkv/object_store.hpp"

namespace nearkv::nixl {

/// A registered object: what a descriptor's metadata points to. Memory has none.
struct ObjectName : nixlBackendMD {
  ObjectName(std::uint64_t number, std::string name)
      : nixlBackendMD(true), device(number), key(std::move(name)) {}

  std::uint64_t device;
  std::string key;
};

/// What stays of a transfer between its calls. Prepared once, it may be posted again and again.
///
/// Descriptors of one object go from its first byte on, in order, each where the one before ended:
/// they become one object of as many segments. A new first byte begins another copy, in reads.
class Request : public nixlBackendReqH {
 public:
  using Clock = std::chrono::steady_clock;

  /// NIXL_ERR_INVALID_PARAM or NIXL_ERR_NOT_SUPPORTED, told in one line, if the descriptors do not
  /// name whole objects.
  [[nodiscard]] static nixl_status_t prepare(nixl_xfer_op_t operation,
                                             const nixl_meta_dlist_t& memory,
                                             const nixl_meta_dlist_t& objects,
                                             std::unique_ptr<Request>* request);

  /// The job that it is; valid as long as the request.
  [[nodiscard]] Job job(std::uint32_t space, bool overwrite) const;

  /// How a job of it ended: the first failure, told in one line, or NIXL_SUCCESS. What is shorter
  /// or longer than the memory for it is NIXL_ERR_MISMATCH.
  [[nodiscard]] nixl_status_t outcome(const JobResult& result) const;

  [[nodiscard]] nixl_xfer_op_t operation() const { return operation_; }
  [[nodiscard]] std::size_t object_count() const { return objects_.size(); }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  std::atomic<nixl_status_t> status{NIXL_ERR_NOT_POSTED};
  JobId id = 0;              ///< While the status is NIXL_IN_PROG.
  Clock::time_point posted;  ///< Likewise.

 private:
  struct Object {
    std::string key;
    std::vector<std::span<const std::byte>> source;  // One of the two,
    std::vector<std::span<std::byte>> target;        // by the operation.
    std::uint64_t bytes = 0;
  };

  explicit Request(nixl_xfer_op_t operation) : operation_(operation) {}

  nixl_xfer_op_t operation_;
  std::vector<Object> objects_;
  std::vector<ObjectItem> items_;
  std::uint64_t bytes_ = 0;
};

}  // namespace nearkv::nixl
