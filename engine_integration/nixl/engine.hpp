// NIXL's view of a store.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "backend/backend_engine.h"
#include "in_flight.hpp"
#include "nearkv/object_store.hpp"
#include "options.hpp"

namespace nearkv::nixl {

/// DRAM to and from objects of a store: a write sets an object, a read gets it, verified. An object
/// is named by its descriptor's blob or, without one, by its number in decimal, as in NIXL's OBJ.
///
/// A backend that cannot be created says why in a line, and has getInitErr(). No call throws.
/// Thread safety: const calls beside each other, the others alone, as an agent's lock has it.
class Engine final : public nixlBackendEngine {
 public:
  explicit Engine(const nixlBackendInitParams* parameters);

  [[nodiscard]] bool supportsRemote() const override { return false; }
  [[nodiscard]] bool supportsLocal() const override { return true; }
  [[nodiscard]] bool supportsNotif() const override { return false; }
  [[nodiscard]] nixl_mem_list_t getSupportedMems() const override { return {DRAM_SEG, OBJ_SEG}; }

  /// NIXL_ERR_NOT_ALLOWED for a number that names another object already: by the number an agent
  /// finds what a descriptor means.
  nixl_status_t registerMem(const nixlBlobDesc& described, const nixl_mem_t& kind,
                            nixlBackendMD*& registered) override;
  nixl_status_t deregisterMem(nixlBackendMD* registered) override;

  nixl_status_t connect(const std::string& /*agent*/) override { return NIXL_SUCCESS; }
  nixl_status_t disconnect(const std::string& /*agent*/) override { return NIXL_SUCCESS; }
  nixl_status_t loadLocalMD(nixlBackendMD* input, nixlBackendMD*& output) override {
    output = input;
    return NIXL_SUCCESS;
  }
  nixl_status_t unloadMD(nixlBackendMD* /*input*/) override { return NIXL_SUCCESS; }

  nixl_status_t prepXfer(const nixl_xfer_op_t& operation, const nixl_meta_dlist_t& memory,
                         const nixl_meta_dlist_t& objects, const std::string& agent,
                         nixlBackendReqH*& handle,
                         const nixl_opt_b_args_t* arguments) const override;
  nixl_status_t postXfer(const nixl_xfer_op_t& operation, const nixl_meta_dlist_t& memory,
                         const nixl_meta_dlist_t& objects, const std::string& agent,
                         nixlBackendReqH*& handle,
                         const nixl_opt_b_args_t* arguments) const override;
  nixl_status_t checkXfer(nixlBackendReqH* handle) const override;

  /// Cancels what has not begun. NIXL_ERR_NOT_ALLOWED, and the handle stays, if what has does not
  /// end for seconds.
  nixl_status_t releaseReqH(nixlBackendReqH* handle) const override;

  /// An empty answer for each object that is there. Waits for the store.
  nixl_status_t queryMem(const nixl_reg_dlist_t& described,
                         std::vector<nixl_query_resp_t>& answers) const override;

  /// From the times of this backend's recent transfers; NIXL_ERR_NOT_POSTED before the first.
  nixl_status_t estimateXferCost(const nixl_xfer_op_t& operation, const nixl_meta_dlist_t& memory,
                                 const nixl_meta_dlist_t& objects, const std::string& agent,
                                 nixlBackendReqH* const& handle,
                                 std::chrono::microseconds& duration,
                                 std::chrono::microseconds& margin, nixl_cost_t& method,
                                 const nixl_opt_args_t* arguments) const override;

 private:
  /// An object's key, and how often it is registered.
  struct Named {
    std::string key;
    std::size_t times = 0;
  };

  [[nodiscard]] bool start(const nixl_b_params_t& parameters);

  std::mutex mutex_;
  std::unordered_map<std::uint64_t, Named> names_;  ///< By device number.
  bool overwrite_ = true;
  std::uint32_t space_ = 0;
  std::unique_ptr<ObjectStore> store_;
  std::unique_ptr<InFlight> in_flight_;  ///< Goes before the store does.
};

}  // namespace nearkv::nixl
