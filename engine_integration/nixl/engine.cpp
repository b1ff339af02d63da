#include "engine.hpp"

#include <vector>

#include "status.hpp"

namespace nearkv::nixl {
namespace {

/// Nothing is thrown past the edge.
template <typename Body>
nixl_status_t guarded(Body&& body) noexcept {
  try {
    return body();
  } catch (...) {
    return NIXL_ERR_BACKEND;
  }
}

std::string key_of(const nixlBlobDesc& described) {
  return described.metaInfo.empty() ? std::to_string(described.devId) : described.metaInfo;
}

}  // namespace

Engine::Engine(const nixlBackendInitParams* parameters) : nixlBackendEngine(parameters) {
  const nixl_status_t started = guarded(
      [&] { return start(*parameters->customParams) ? NIXL_SUCCESS : NIXL_ERR_INVALID_PARAM; });
  initErr = started != NIXL_SUCCESS;
}

bool Engine::start(const nixl_b_params_t& parameters) {
  Options options;
  std::string reason;
  Status status = read_options(parameters, &options, &reason);
  if (status == Status::kOk) status = open_store(options, &store_, &reason);
  if (status == Status::kOk) status = store_->open_namespace(options.space, &space_);
  if (status != Status::kOk) {
    NIXL_ERROR << (reason.empty() ? message(status) : reason);
    return false;
  }
  overwrite_ = options.overwrite;
  in_flight_ = std::make_unique<InFlight>(store_.get());
  return true;
}

nixl_status_t Engine::registerMem(const nixlBlobDesc& described, const nixl_mem_t& kind,
                                  nixlBackendMD*& registered) {
  return guarded([&] {
    registered = nullptr;
    if (kind == DRAM_SEG) return NIXL_SUCCESS;
    if (kind != OBJ_SEG) return NIXL_ERR_NOT_SUPPORTED;
    auto name = std::make_unique<ObjectName>(described.devId, key_of(described));
    const std::scoped_lock lock(mutex_);
    Named& named = names_[described.devId];
    if (named.times != 0 && named.key != name->key) {
      NIXL_ERROR << "device number " << described.devId
                 << " names another object already; give each object a number of its own";
      return NIXL_ERR_NOT_ALLOWED;
    }
    named.key = name->key;
    ++named.times;
    registered = name.release();
    return NIXL_SUCCESS;
  });
}

nixl_status_t Engine::deregisterMem(nixlBackendMD* registered) {
  const std::unique_ptr<ObjectName> name(static_cast<ObjectName*>(registered));
  if (!name) return NIXL_SUCCESS;
  return guarded([&] {
    const std::scoped_lock lock(mutex_);
    const auto found = names_.find(name->device);
    if (found != names_.end() && --found->second.times == 0) names_.erase(found);
    return NIXL_SUCCESS;
  });
}

nixl_status_t Engine::prepXfer(const nixl_xfer_op_t& operation, const nixl_meta_dlist_t& memory,
                               const nixl_meta_dlist_t& objects, const std::string& /*agent*/,
                               nixlBackendReqH*& handle,
                               const nixl_opt_b_args_t* /*arguments*/) const {
  return guarded([&] {
    std::unique_ptr<Request> request;
    const nixl_status_t status = Request::prepare(operation, memory, objects, &request);
    if (status == NIXL_SUCCESS) handle = request.release();
    return status;
  });
}

nixl_status_t Engine::postXfer(const nixl_xfer_op_t& /*operation*/,
                               const nixl_meta_dlist_t& /*memory*/,
                               const nixl_meta_dlist_t& /*objects*/, const std::string& /*agent*/,
                               nixlBackendReqH*& handle,
                               const nixl_opt_b_args_t* /*arguments*/) const {
  if (handle == nullptr) return NIXL_ERR_INVALID_PARAM;
  return guarded([&] {
    auto* const request = static_cast<Request*>(handle);
    return in_flight_->post(request, request->job(space_, overwrite_));
  });
}

nixl_status_t Engine::checkXfer(nixlBackendReqH* handle) const {
  if (handle == nullptr) return NIXL_ERR_INVALID_PARAM;
  return guarded([&] { return in_flight_->check(static_cast<Request*>(handle)); });
}

nixl_status_t Engine::releaseReqH(nixlBackendReqH* handle) const {
  auto* const request = static_cast<Request*>(handle);
  if (request == nullptr) return NIXL_ERR_INVALID_PARAM;
  return guarded([&] {
    if (!in_flight_->stop(request)) {
      NIXL_ERROR << "a transfer cannot be released yet: the store copies still, or its daemon does "
                    "not answer; release it again later";
      return NIXL_ERR_NOT_ALLOWED;
    }
    delete request;
    return NIXL_SUCCESS;
  });
}

nixl_status_t Engine::queryMem(const nixl_reg_dlist_t& described,
                               std::vector<nixl_query_resp_t>& answers) const {
  return guarded([&] {
    std::vector<std::string> keys;
    keys.reserve(static_cast<std::size_t>(described.descCount()));
    for (const nixlBlobDesc& one : described) keys.push_back(key_of(one));
    std::vector<ObjectItem> items(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) items[i].key = std::as_bytes(std::span(keys[i]));
    Job job;
    job.kind = JobKind::kExists;
    job.namespace_number = space_;
    job.items = items;
    JobResult result;
    Status status = store_->run(job, &result);
    answers.assign(keys.size(), std::nullopt);
    for (std::size_t i = 0; status == Status::kOk && i < keys.size(); ++i) {
      if (result.items[i] == Status::kOk) answers[i].emplace();
      if (result.items[i] != Status::kNotFound) status = result.items[i];
    }
    if (status != Status::kOk) NIXL_ERROR << "objects not looked up: " << message(status);
    return to_nixl(status);
  });
}

nixl_status_t Engine::estimateXferCost(const nixl_xfer_op_t& operation,
                                       const nixl_meta_dlist_t& /*memory*/,
                                       const nixl_meta_dlist_t& /*objects*/,
                                       const std::string& /*agent*/, nixlBackendReqH* const& handle,
                                       std::chrono::microseconds& duration,
                                       std::chrono::microseconds& margin, nixl_cost_t& method,
                                       const nixl_opt_args_t* /*arguments*/) const {
  const auto* const request = static_cast<const Request*>(handle);
  if (request == nullptr) return NIXL_ERR_INVALID_PARAM;
  return guarded([&] {
    const auto cost =
        in_flight_->costs(operation).estimate(request->object_count(), request->bytes());
    if (!cost) return NIXL_ERR_NOT_POSTED;
    duration = std::chrono::ceil<std::chrono::microseconds>(cost->duration);
    margin = std::chrono::ceil<std::chrono::microseconds>(cost->margin);
    method = nixl_cost_t::ANALYTICAL_BACKEND;
    return NIXL_SUCCESS;
  });
}

}  // namespace nearkv::nixl
