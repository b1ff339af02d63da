#include "remote/ucx.hpp"

#include <cstdlib>

namespace nearkv {
namespace {

// How soon a peer is missed whose machine is gone, so that nobody closes its connection.
constexpr const char* kKeepAlive = "2s";

/// Before UCX 1.17.
bool is_older_ucx() {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  ::ucp_get_version(&major, &minor, &release);
  return major == 1 && minor < 17;
}

/// Keeps faults of UCX 1.13 out of the way, each of which ends a process because its peer died.
ucs_status_t avoid_faults(ucp_config_t* config) {
  // Otherwise an endpoint waits in connect() as long as TCP does, and the peer may die right after.
  // From UCX 1.17 on options are told with their transport.
  const char* const connect_option = is_older_ucx() ? "CONN_NB" : "TCP_CONN_NB";
  ucs_status_t status = ::ucp_config_modify(config, connect_option, "y");
  if (!is_older_ucx() || std::getenv("UCX_ZCOPY_THRESH") != nullptr) return status;
  // What TCP sends from where it lies is ended twice when its peer dies. Copies are about as fast
  // in segments of this size, which are eight times the usual ones.
  if (status == UCS_OK) status = ::ucp_config_modify(config, "ZCOPY_THRESH", "inf");
  if (status == UCS_OK) status = ::ucp_config_modify(config, "TX_SEG_SIZE", "64k");
  return status;
}

}  // namespace

std::string ucx_text(const std::string& what, ucs_status_t status) {
  return "UCX: " + what + ": " + ::ucs_status_string(status);
}

Status make_context(const std::string& transports, UcxContext* context, std::string* reason) {
  ucp_config_t* config = nullptr;
  ucs_status_t status = ::ucp_config_read(nullptr, nullptr, &config);
  if (status == UCS_OK) {
    status = ::ucp_config_modify(config, "KEEPALIVE_INTERVAL", kKeepAlive);
    if (status == UCS_OK) status = avoid_faults(config);
    if (status == UCS_OK && !transports.empty()) {
      status = ::ucp_config_modify(config, "TLS", transports.c_str());
    }
    ucp_context_h made = nullptr;
    if (status == UCS_OK) {
      ucp_params_t params{};
      params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
      params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
      params.mt_workers_shared = 1;
      status = ::ucp_init(&params, config, &made);
    }
    ::ucp_config_release(config);
    if (status == UCS_OK) *context = UcxContext(made, &::ucp_cleanup);
  }
  if (status == UCS_OK) return Status::kOk;
  *reason = ucx_text("no context for '" + transports + "'", status);
  return Status::kIoError;
}

Status make_worker(const UcxContext& context, UcxWorker* worker, std::string* reason) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucp_worker_h made = nullptr;
  const ucs_status_t status = ::ucp_worker_create(context.get(), &params, &made);
  if (status == UCS_OK) {
    *worker = UcxWorker(made, &::ucp_worker_destroy);
    return Status::kOk;
  }
  *reason = ucx_text("no worker", status);
  return Status::kOutOfMemory;
}

int event_fd_of(const UcxWorker& worker) {
  int fd = -1;
  return ::ucp_worker_get_efd(worker.get(), &fd) == UCS_OK ? fd : -1;
}

bool arm(const UcxWorker& worker) { return ::ucp_worker_arm(worker.get()) == UCS_OK; }

}  // namespace nearkv
