// A client of a daemon: requests on their way, over all lives of the daemon.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/client/client_memory.hpp"
#include "daemon/client/connection.hpp"
#include "daemon/client/piece.hpp"
#include "nearkv/object_store.hpp"
#include "object/owned_job.hpp"

namespace nearkv {

/// A job in pieces. Its pieces go out in order, as far as there is room, and come back in order.
struct ClientJob {
  explicit ClientJob(const Job& given) : job(given) {
    result.items.resize(job.items.size(), Status::kOk);
    result.object_bytes.resize(job.items.size(), 0);
  }

  [[nodiscard]] bool is_over() const { return over == result.items.size(); }

  Job job;                          ///< Over the caller's lists, or those of `owned`.
  std::unique_ptr<OwnedJob> owned;  ///< Of a job whose submitter does not wait.
  JobResult result;
  std::size_t next = 0;  ///< Items before it have gone out, or never will.
  std::size_t over = 0;
};

/// What the daemon answers at once, unless it is work.
struct Call {
  std::uint8_t operation = 0;
  std::uint32_t number = 0;
  std::uint32_t items = 0;
  std::uint64_t argument = 0;
  std::span<const std::byte> head;  ///< First bytes of the request, before the keys.
  std::span<const Key> keys;
  std::uint64_t result_bytes = 0;
  std::uint64_t life = 0;  ///< Of the daemon that it is for: kNotFound in another; 0: any.
  bool is_work = false;    ///< Takes as long as it takes.
};

struct Reply {
  Status status = Status::kOk;
  std::uint64_t life = 0;  ///< Of the daemon that gave it, counted from 1 on.
  std::uint64_t value = 0;
  std::uint32_t count = 0;
  std::vector<std::byte> result;
};

/// When the daemon dies, what is on its way ends with kAborted, and whatever comes next connects
/// anew: it brings the same memory and opens the same namespaces, under the numbers that they had.
///
/// One mutex covers everything; whoever waits, waits without it. Of those who wait, one looks at
/// the ring for all. Thread safety: all calls.
class DaemonClient {
 public:
  using Clock = std::chrono::steady_clock;

  static Status connect(const DaemonPlace& place, const ObjectStore::ClientOptions& options,
                        std::unique_ptr<DaemonClient>* client, std::string* reason);
  ~DaemonClient();

  // As ObjectStore's.
  Status open_namespace(const Namespace& name, std::uint32_t* number);
  Status adopt_namespace(const NamespaceInfo& info, std::uint32_t* number);
  Status close_namespace(std::uint32_t number);
  Status watch(std::size_t most);
  std::vector<StoreEvent> take_events(std::uint64_t* missed);
  Status submit(const Job& job, JobId* id);
  Status run(const Job& job, JobResult* result);
  [[nodiscard]] int event_fd() const { return events_.get(); }
  std::vector<JobResult> drain();
  Status wait(JobId id, std::chrono::nanoseconds timeout, JobResult* result);
  Status cancel(JobId id);
  Status allocate(std::size_t bytes, std::span<std::byte>* memory);
  Status release(std::span<std::byte> memory);
  Status register_memory(std::span<std::byte> mapping, int memfd, std::uint64_t offset);
  Status unregister_memory(std::span<std::byte> mapping);

  /// Sends a call and waits for its answer; once more, if the daemon dies meanwhile. kNoDaemon.
  /// kTimeout if there is no answer in time, or there was none and still nothing was heard.
  /// With keys: `number` is a namespace's. kBadArgument if the keys are more than fit a request.
  Reply call(const Call& call);

  /// Most keys, of so many bytes together, that a call may have.
  [[nodiscard]] bool fits(std::size_t keys, std::uint64_t key_bytes) const;

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Abandon;

  /// What a submission is for, from when it is sent to when its completion is taken.
  struct Flight {
    std::uint64_t tag = 0;  ///< 0: free.
    ClientJob* job = nullptr;
    Piece piece;
    Reply* reply = nullptr;
    std::uint64_t request_at = 0;
    std::uint64_t request_bytes = 0;  ///< With the result.
    std::uint64_t result_at = 0;
    std::uint64_t result_bytes = 0;
    std::uint64_t carried_at = 0;
    Clock::time_point sent;
    bool is_over = false;
  };

  DaemonClient(DaemonPlace place, const ObjectStore::ClientOptions& options);

  // daemon_client_link.cpp: connections
  Status attach(std::unique_ptr<Connection> connection);
  [[nodiscard]] Status ensure_connected(Lock& lock);
  Status reconnect();
  void lose_connection();
  Status open_again();
  /// Sends a call and waits for the answer, on a connection that nobody else uses yet.
  [[nodiscard]] Reply call_first(std::uint8_t operation, std::span<const std::byte> head,
                                 std::uint64_t argument);
  Status open_by(std::uint8_t operation, std::vector<std::byte> request, std::uint32_t* number);
  void take_events(const Reply& reply, std::vector<StoreEvent>* events) const;
  void watch(int fd, std::uint32_t events) const;

  // All under the mutex.
  [[nodiscard]] Flight* take_flight(std::uint64_t request_bytes, std::uint64_t result_bytes,
                                    std::uint64_t carried_bytes);
  void end_flight(Flight* flight);
  void send(Flight* flight, nkv_daemon_submission* submission);
  void take_completions();
  void land(Flight* flight, const nkv_daemon_completion& completion);
  void send_cancels();
  [[nodiscard]] bool is_unanswered(const Flight& flight) const;
  void give_up(Flight* flight, Status status);
  void give_up_unanswered(ClientJob* job);
  void send_pieces();
  [[nodiscard]] bool leaves_room(const Piece& piece) const;
  [[nodiscard]] bool send_piece(ClientJob* job);
  void advance(ClientJob* job, std::size_t items);
  void fail_rest(ClientJob* job, Status status);
  [[nodiscard]] Status check(const Job& job) const;
  Reply call_once(Lock& lock, const Call& call);
  /// Has the daemon told of memory on a connection that is there. kTimeout as a call's.
  template <typename Exchange>
  Status exchange(Exchange exchange);

  template <typename Over>
  Status wait_until(Lock& lock, Clock::time_point deadline, Over over);

  DaemonPlace place_;
  ObjectStore::ClientOptions options_;
  FileDescriptor events_;  ///< An epoll of what may make drain() worth a call.
  FileDescriptor ready_;   ///< An eventfd: jobs are over.

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool looking_ = false;  ///< Somebody waits for the ring itself.
  std::shared_ptr<Connection> connection_;
  std::unique_ptr<ClientMemory> memory_;
  RangeAllocator requests_;
  std::vector<Flight> flights_;
  std::vector<std::uint32_t> free_flights_;
  std::uint64_t next_tag_ = 1;
  std::map<JobId, std::unique_ptr<ClientJob>> jobs_;  ///< Until reported.
  std::deque<ClientJob*> unsent_;                     ///< Jobs with items to send.
  std::deque<std::uint64_t> cancels_;                 ///< Tags that the daemon is to be told of.
  std::deque<JobId> done_;
  JobId next_job_ = 1;
  std::uint64_t life_ = 0;
  Clock::time_point heard_;      ///< When the daemon last answered.
  Clock::time_point redial_;     ///< One that hangs while it is connected to is left alone until.
  bool expects_daemon_ = true;   ///< False after it has been looked for in vain.
  bool expects_answers_ = true;  ///< False after one has been waited for in vain.

  /// How a namespace was opened, to be opened again.
  struct Opened {
    std::uint8_t operation = 0;
    std::vector<std::byte> request;
    std::uint32_t number = 0;  ///< As this daemon knows it.
    std::uint32_t users = 1;   ///< How often it is open here; in the daemon it is once.
  };
  std::mutex opening_;                          ///< Held while one is opened or closed.
  std::map<std::uint32_t, Opened> namespaces_;  ///< By the numbers that callers know.
  std::size_t watched_ = 0;                     ///< Changes that the daemon keeps.
  std::uint64_t lost_watches_ = 0;              ///< Daemons that died with changes not taken.
};

}  // namespace nearkv
