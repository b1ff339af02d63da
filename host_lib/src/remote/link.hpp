// One UCX connection to one peer.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "remote/ucx.hpp"

namespace nearkv {

using Runs = std::vector<std::span<std::byte>>;
using ConstRuns = std::vector<std::span<const std::byte>>;

/// Where a link's messages go. Called by the thread that calls Link::progress().
class LinkReceiver {
 public:
  virtual ~LinkReceiver() = default;

  /// A message has begun to come: memory for its `bytes` of data, all of them; nothing if it
  /// breaks the protocol. The memory is UCX's until landed(), or until the link is closed.
  virtual std::optional<Runs> place(std::span<const std::byte> header, std::size_t bytes) = 0;

  /// All of a message is there.
  virtual void landed(std::span<const std::byte> header, const Runs& data) = 0;
};

/// A worker with one endpoint. Large messages go by rendezvous, straight from the sender's memory
/// to the receiver's. Thread safety: one thread at a time.
///
/// Two links connect to each other's address(). UCX's listeners are not used: before UCX 1.18 an
/// event that a worker missed is replayed to whichever worker has got the descriptor since, and
/// that ends the process (openucx/ucx pull request 9942). Connections that listeners accept go from
/// worker to worker, and are closed while others work. Without them all descriptors that UCX
/// watches for a worker are its own from its beginning to its end.
class Link {
 public:
  /// kIoError, kOutOfMemory with a reason.
  static Status make(const UcxContext& context, LinkReceiver* receiver, std::unique_ptr<Link>* link,
                     std::string* reason);

  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// Where another link can reach this one, for UCX to read.
  [[nodiscard]] std::vector<std::byte> address() const;

  /// Begins to connect; failures show later, as the fault. Who sent the address is trusted. Comes
  /// before progress(): UCX 1.13 ends the process where an endpoint takes over a connection that
  /// the peer has begun and died on.
  void connect(std::span<const std::byte> address);

  /// Whether the other side's UCX has answered by then; false if there is a fault.
  [[nodiscard]] bool await_connection(std::chrono::steady_clock::time_point deadline);

  /// Closes; after that neither UCX nor the peer touches any memory of messages.
  ~Link();

  /// Sends a header, of up to 2 KiB, and data that must stay as it is until the peer has it.
  void send(std::vector<std::byte> header, const ConstRuns& data);

  /// Does what there is to do; false if there was nothing.
  bool progress();

  /// Messages sent or coming that UCX has not done with.
  [[nodiscard]] std::size_t pending() const { return operations_.size(); }

  /// Why the link is of no use any more; empty while it is.
  [[nodiscard]] const std::string& fault() const { return fault_; }
  void break_off(const std::string& why) {
    if (fault_.empty()) fault_ = why;
  }

  [[nodiscard]] int event_fd() const { return event_fd_of(worker_); }
  [[nodiscard]] bool may_sleep() const { return arm(worker_); }

 private:
  struct Operation;

  explicit Link(LinkReceiver* receiver);

  static ucs_status_t on_message(void* link, const void* header, std::size_t header_bytes,
                                 void* data, std::size_t bytes, const ucp_am_recv_param_t* param);
  static void on_sent(void* request, ucs_status_t status, void* operation);
  static void on_error(void* link, ucp_ep_h endpoint, ucs_status_t status);
  ucs_status_t receive(std::span<const std::byte> header, void* data, std::size_t bytes,
                       bool rendezvous);
  Operation* begin(std::vector<std::byte> header);
  void finish(Operation* operation, ucs_status_t status);
  void land(std::span<const std::byte> header, const Runs& data);

  LinkReceiver* receiver_;
  UcxWorker worker_{nullptr, &::ucp_worker_destroy};
  ucp_ep_h endpoint_ = nullptr;
  std::list<std::unique_ptr<Operation>> operations_;
  std::string fault_;
};

}  // namespace nearkv
