#include "remote/link.hpp"

#include <poll.h>

#include <cstring>

#include "daemon/wire/poll_time.hpp"
#include "edge.hpp"

namespace nearkv {
namespace {

constexpr unsigned kMessage = 1;  // The only kind of active message that UCX is told of.

}  // namespace

/// A message on its way, in either direction.
struct Link::Operation {
  // UCX takes a list of runs only if it is not empty.
  [[nodiscard]] bool is_list() const { return runs.size() > 1; }
  [[nodiscard]] void* buffer() {
    if (is_list()) return runs.data();
    return runs.empty() ? nullptr : runs.front().buffer;
  }
  [[nodiscard]] std::size_t count() const {
    if (is_list()) return runs.size();
    return runs.empty() ? 0 : runs.front().length;
  }

  Link* link = nullptr;
  std::list<std::unique_ptr<Operation>>::iterator place;
  std::vector<std::byte> header;
  std::vector<ucp_dt_iov_t> runs;
  Runs targets;  ///< Of one that comes.
  bool comes = false;
};

Link::Link(LinkReceiver* receiver) : receiver_(receiver) {}

Status Link::make(const UcxContext& context, LinkReceiver* receiver, std::unique_ptr<Link>* link,
                  std::string* reason) {
  std::unique_ptr<Link> made(new Link(receiver));
  const Status status = make_worker(context, &made->worker_, reason);
  if (status != Status::kOk) return status;
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kMessage;
  handler.cb = &Link::on_message;
  handler.arg = made.get();
  const ucs_status_t done = ::ucp_worker_set_am_recv_handler(made->worker_.get(), &handler);
  if (done != UCS_OK) {
    *reason = ucx_text("no messages", done);
    return Status::kIoError;
  }
  *link = std::move(made);
  return Status::kOk;
}

std::vector<std::byte> Link::address() const {
  ucp_worker_attr_t attributes{};
  attributes.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS;
  attributes.address_flags = UCP_WORKER_ADDRESS_FLAG_NET_ONLY;
  if (::ucp_worker_query(worker_.get(), &attributes) != UCS_OK) return {};
  const auto* const begin = reinterpret_cast<const std::byte*>(attributes.address);
  std::vector<std::byte> address(begin, begin + attributes.address_length);
  ::ucp_worker_release_address(worker_.get(), attributes.address);
  return address;
}

void Link::connect(std::span<const std::byte> address) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = &Link::on_error;
  params.err_handler.arg = this;
  const ucs_status_t done = ::ucp_ep_create(worker_.get(), &params, &endpoint_);
  if (done == UCS_OK) return;
  endpoint_ = nullptr;
  break_off(ucx_text("no endpoint", done));
}

bool Link::await_connection(std::chrono::steady_clock::time_point deadline) {
  if (!fault_.empty()) return false;
  Operation* const operation = begin({});
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = &Link::on_sent;
  param.user_data = operation;
  void* const request = ::ucp_ep_flush_nbx(endpoint_, &param);
  if (!UCS_PTR_IS_PTR(request)) finish(operation, UCS_PTR_STATUS(request));
  while (fault_.empty() && !operations_.empty()) {
    const int left_ms = poll_ms(deadline);
    if (left_ms == 0) break_off("no connection of UCX in time");
    if (progress() || !may_sleep()) continue;
    pollfd ready{event_fd(), POLLIN, 0};
    ::poll(&ready, 1, left_ms);
  }
  return fault_.empty();
}

Link::~Link() {
  receiver_ = nullptr;
  if (endpoint_ == nullptr) return;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  void* const request = ::ucp_ep_close_nbx(endpoint_, &param);
  if (UCS_PTR_IS_PTR(request)) {
    while (::ucp_request_check_status(request) == UCS_INPROGRESS) {
      (void)::ucp_worker_progress(worker_.get());
    }
    ::ucp_request_free(request);
  }
  // A forced close ends all operations of its endpoint.
  while (!operations_.empty()) (void)::ucp_worker_progress(worker_.get());
}

bool Link::progress() { return ::ucp_worker_progress(worker_.get()) != 0; }

Link::Operation* Link::begin(std::vector<std::byte> header) {
  auto operation = std::make_unique<Operation>();
  operation->link = this;
  operation->header = std::move(header);
  Operation* const raw = operation.get();
  operations_.push_back(std::move(operation));
  raw->place = std::prev(operations_.end());
  return raw;
}

void Link::finish(Operation* operation, ucs_status_t status) {
  const std::unique_ptr<Operation> done = std::move(*operation->place);
  operations_.erase(done->place);
  if (status != UCS_OK) {
    break_off(ucx_text(done->comes ? "receiving" : "sending", status));
  } else if (done->comes && receiver_ != nullptr && fault_.empty()) {
    land(done->header, done->targets);
  }
}

void Link::land(std::span<const std::byte> header, const Runs& data) {
  const Status landed = at_edge([&] {
    receiver_->landed(header, data);
    return Status::kOk;
  });
  if (landed != Status::kOk) break_off("no memory for a message");
}

void Link::send(std::vector<std::byte> header, const ConstRuns& data) {
  if (!fault_.empty()) return;
  Operation* const operation = begin(std::move(header));
  for (const auto& run : data) {
    operation->runs.push_back({const_cast<std::byte*>(run.data()), run.size()});
  }
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = &Link::on_sent;
  param.user_data = operation;
  if (operation->is_list()) {
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = ucp_dt_make_iov();
  }
  void* const request =
      ::ucp_am_send_nbx(endpoint_, kMessage, operation->header.data(), operation->header.size(),
                        operation->buffer(), operation->count(), &param);
  if (!UCS_PTR_IS_PTR(request)) finish(operation, UCS_PTR_STATUS(request));
}

void Link::on_sent(void* request, ucs_status_t status, void* operation) {
  auto* const sent = static_cast<Operation*>(operation);
  sent->link->finish(sent, status);
  ::ucp_request_free(request);
}

ucs_status_t Link::on_message(void* link, const void* header, std::size_t header_bytes, void* data,
                              std::size_t bytes, const ucp_am_recv_param_t* param) {
  const bool rendezvous = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  auto* const self = static_cast<Link*>(link);
  ucs_status_t taken = UCS_ERR_NO_MEMORY;
  const Status status = at_edge([&] {
    taken = self->receive({static_cast<const std::byte*>(header), header_bytes}, data, bytes,
                          rendezvous);
    return Status::kOk;
  });
  if (status != Status::kOk) self->break_off("no memory for a message");
  return rendezvous || taken == UCS_INPROGRESS ? taken : UCS_OK;
}

void Link::on_error(void* link, ucp_ep_h /*endpoint*/, ucs_status_t status) {
  static_cast<Link*>(link)->break_off(ucx_text("connection", status));
}

ucs_status_t Link::receive(std::span<const std::byte> header, void* data, std::size_t bytes,
                           bool rendezvous) {
  if (receiver_ == nullptr || !fault_.empty()) return UCS_ERR_CANCELED;
  std::optional<Runs> targets = receiver_->place(header, bytes);
  std::size_t room = 0;
  if (targets) {
    for (const auto& run : *targets) room += run.size();
  }
  if (!targets || room != bytes) {
    break_off("a message that breaks the protocol");
    return UCS_ERR_CANCELED;
  }
  if (!rendezvous) {
    const auto* from = static_cast<const std::byte*>(data);
    for (const auto& run : *targets) {
      if (run.empty()) continue;
      std::memcpy(run.data(), from, run.size());
      from += run.size();
    }
    land(header, *targets);
    return UCS_OK;
  }
  Operation* const operation = begin({header.begin(), header.end()});
  operation->comes = true;
  operation->targets = std::move(*targets);
  for (const auto& run : operation->targets) operation->runs.push_back({run.data(), run.size()});
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.recv_am = [](void* request, ucs_status_t status, std::size_t, void* user_data) {
    auto* const come = static_cast<Operation*>(user_data);
    come->link->finish(come, status);
    ::ucp_request_free(request);
  };
  param.user_data = operation;
  if (operation->is_list()) {
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = ucp_dt_make_iov();
  }
  void* const request =
      ::ucp_am_recv_data_nbx(worker_.get(), data, operation->buffer(), operation->count(), &param);
  if (!UCS_PTR_IS_PTR(request)) finish(operation, UCS_PTR_STATUS(request));
  return UCS_INPROGRESS;
}

}  // namespace nearkv
