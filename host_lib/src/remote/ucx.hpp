// UCX, as far as it is used: a context, and workers that sleep when there is nothing to do.
#pragma once

#include <ucp/api/ucp.h>

#include <memory>
#include <string>

#include "nearkv/status.hpp"

namespace nearkv {

using UcxContext = std::shared_ptr<ucp_context>;
using UcxWorker = std::unique_ptr<ucp_worker, decltype(&::ucp_worker_destroy)>;

/// A context for active messages. `transports` as in UCX_TLS, empty: what the environment says.
/// kIoError with a reason.
Status make_context(const std::string& transports, UcxContext* context, std::string* reason);

/// A worker that one thread at a time may use.
Status make_worker(const UcxContext& context, UcxWorker* worker, std::string* reason);

/// Becomes readable when a worker has something to do that came after arm().
[[nodiscard]] int event_fd_of(const UcxWorker& worker);

/// Whether the worker's owner may go to sleep on event_fd_of().
[[nodiscard]] bool arm(const UcxWorker& worker);

/// "UCX: what: why", for reasons.
[[nodiscard]] std::string ucx_text(const std::string& what, ucs_status_t status);

}  // namespace nearkv
