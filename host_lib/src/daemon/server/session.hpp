// One client's rings: what it asks, checked, done and answered.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <semaphore>
#include <string>
#include <vector>

#include "daemon/server/clients.hpp"
#include "daemon/server/event_hub.hpp"
#include "daemon/server/regions.hpp"
#include "daemon/server/request.hpp"
#include "daemon/server/server_counters.hpp"
#include "daemon/server/tenants.hpp"
#include "daemon/wire/rings.hpp"
#include "daemon/wire/window.hpp"
#include "nearkv/object_store.hpp"

namespace nearkv {

/// What all sessions share.
struct SessionContext {
  ObjectStore* store = nullptr;
  ServerTenants* tenants = nullptr;
  ClientList* clients = nullptr;
  EventHub* events = nullptr;
  ServerCounters* counters = nullptr;
  std::counting_semaphore<>* copying = nullptr;  ///< As many sessions as may copy at a time.
};

/// Trusts nothing in the window: each submission and each request is copied once, and only the copy
/// is looked at. A client that breaks the protocol is to be cut off; one that merely asks for what
/// it may not have, or what makes no sense, gets a status. What it does never holds up others.
///
/// Thread safety: one thread at a time, the client's own.
class Session {
 public:
  /// The window and the regions must outlive this.
  Session(const SessionContext& context, std::vector<Grant> grants, ClientStatus* client,
          const WindowView& window, Regions* regions);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Ends the client's leases, closes its namespaces and ends what it watches; jobs that are not
  /// over are dropped.
  ~Session();

  enum class Step : std::uint8_t {
    kIdle,    ///< There was nothing to do.
    kWorked,  ///< There may be more.
    kBroken,  ///< The client has broken the protocol; fault() says how.
  };

  /// Answers what has come, then runs one chunk of the oldest job.
  Step step();

  /// Whether step() would find something to do.
  [[nodiscard]] bool has_work() const;

  /// No job is queued, so no region is in use.
  [[nodiscard]] bool is_quiet() const { return jobs_.empty(); }

  /// While true, the client announces submissions by its descriptor.
  void announce_sleep(bool sleeps) { rings_.announce_sleep(sleeps); }

  /// Whether the client is to be woken for completions since the last call.
  [[nodiscard]] bool take_wake() { return std::exchange(wake_, false); }

  [[nodiscard]] const std::string& fault() const { return fault_; }

 private:
  using Clock = std::chrono::steady_clock;

  struct QueuedJob : RequestedJob {
    std::size_t next = 0;  ///< Items before it are over.
    JobResult result;
    TenantCounters* counters = nullptr;
    Clock::time_point begin;
  };
  struct Answer {
    Status status = Status::kOk;
    std::uint64_t value = 0;
    std::uint32_t count = 0;
  };

  [[nodiscard]] bool take_submission(nkv_daemon_submission* submission);
  void handle(const nkv_daemon_submission& submission);
  void queue_job(const nkv_daemon_submission& submission);
  void run_chunk();
  void count(const QueuedJob& job, const JobResult& chunk);
  void finish_job(std::size_t index);
  void complete(const nkv_daemon_submission& submission, const Answer& answer);
  void break_off(const std::string& why) { fault_ = why; }

  /// kOk if the client may do that to a namespace that it has opened; counts refusals.
  Status check(std::uint32_t namespace_number, Permission permission);
  [[nodiscard]] bool is_administrator() const;
  Status check_admin();

  // session_calls.cpp
  Answer call(const Request& request);
  Answer cancel(std::uint64_t tag);
  Answer look_up(const Request& request);
  Answer describe(const Request& request);
  Answer match_prefix(const Request& request);
  Answer touch(const Request& request);
  Answer pin(const Request& request);
  Answer unpin(LeaseId lease);
  Answer open_namespace(const Request& request);
  /// Keeps what was just opened in the store, once.
  void add_namespace(std::uint32_t number, const Grant& grant);
  Answer close_namespace(std::uint32_t number);
  Answer watch(std::uint64_t most);
  Answer take_events(const Request& request);
  [[nodiscard]] std::span<std::byte> result_of(const Request& request) const;
  void forget_expired_leases();

  // session_admin.cpp
  Answer administer(const Request& request);
  Answer adopt_namespace(const Request& request);

  SessionContext context_;
  std::vector<Grant> grants_;
  ClientStatus* client_;
  WindowView window_;
  DaemonRings rings_;
  Regions* regions_;
  std::uint64_t queued_bytes_ = 0;
  std::map<std::uint32_t, Grant> namespaces_;  ///< That the client has opened.
  EventWatcher watcher_;
  std::map<LeaseId, Clock::time_point> leases_;
  std::deque<std::unique_ptr<QueuedJob>> jobs_;
  std::vector<std::unique_ptr<QueuedJob>> spare_;  ///< Memory of jobs that are over.
  JobResult chunk_;
  Request call_;
  std::vector<Key> keys_;
  bool wake_ = false;
  std::string fault_;
};

}  // namespace nearkv
