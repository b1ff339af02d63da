#include "daemon/client/connection.hpp"

#include <poll.h>
#include <signal.h>

#include <array>
#include <cstring>
#include <ctime>
#include <utility>

#include "daemon/wire/poll_time.hpp"
#include "daemon/wire/wake_pipe.hpp"

namespace nearkv {
namespace {

/// Whether a part lies within the window, as the daemon's welcome claims.
bool is_sound(const WindowLayout& layout) {
  const WindowLayout own = WindowLayout::make(layout.request_area_bytes, layout.data_bytes);
  return layout.submissions_at == own.submissions_at &&
         layout.completions_at == own.completions_at && layout.requests_at == own.requests_at &&
         layout.request_area_bytes == own.request_area_bytes && layout.data_at == own.data_at &&
         layout.data_bytes == own.data_bytes && layout.window_bytes == own.window_bytes;
}

nkv_daemon_region forget_request(std::uint32_t region) {
  nkv_daemon_region request{};
  request.magic = NKV_DAEMON_MAGIC;
  request.message = NKV_DAEMON_MESSAGE_UNREGISTER;
  request.region = region;
  return request;
}

}  // namespace

Status Connection::open(const DaemonPlace& place, std::uint64_t data_bytes,
                        const ObjectStore::ClientOptions& options,
                        std::unique_ptr<Connection>* connection, std::string* reason) {
  std::unique_ptr<Connection> made(new Connection);
  made->answer_timeout_ = options.answer_timeout;
  Status status = place.dial(&made->socket_, reason);
  if (status != Status::kOk) return status;
  nkv_daemon_hello hello{};
  hello.magic = NKV_DAEMON_MAGIC;
  hello.message = NKV_DAEMON_MESSAGE_HELLO;
  hello.version = NKV_DAEMON_VERSION;
  hello.data_bytes = data_bytes;
  nkv_daemon_welcome welcome{};
  std::vector<FileDescriptor> fds;
  status = made->socket_.send(bytes_of_message(hello));
  if (status == Status::kOk) {
    status = made->socket_.receive(writable_message(&welcome), &fds, options.answer_timeout);
  }
  if (status == Status::kTimeout) {
    *reason = place.name + ": whoever listens there did not answer in time";
    return status;
  }
  if (status != Status::kOk || welcome.magic != NKV_DAEMON_MAGIC) {
    *reason = place.name + ": whoever listens there did not answer like a NearKV daemon";
    return Status::kNoDaemon;
  }
  status = static_cast<Status>(welcome.status);
  if (status != Status::kOk) {
    const auto* const text = reinterpret_cast<const char*>(welcome.reason);
    *reason = place.name + ": " + std::string(text, ::strnlen(text, sizeof(welcome.reason)));
    return status;
  }
  made->layout_ = {welcome.submissions_at,     welcome.completions_at, welcome.requests_at,
                   welcome.request_area_bytes, welcome.data_at,        welcome.data_bytes,
                   welcome.window_bytes};
  if (fds.size() != 3 || welcome.version != NKV_DAEMON_VERSION || !is_sound(made->layout_)) {
    *reason =
        place.name + ": the daemon is of another version; use the library of the same release";
    return Status::kBadAbi;
  }
  made->window_fd_ = std::move(fds[0]);
  made->wake_daemon_ = std::move(fds[1]);
  made->woken_ = std::move(fds[2]);
  made->memory_ = std::make_shared<SharedMemory>();
  status = SharedMemory::map_foreign(made->window_fd_.get(), 0, welcome.window_bytes,
                                     made->memory_.get());
  if (status != Status::kOk) {
    *reason = place.name + ": the window of " + std::to_string(welcome.window_bytes) +
              " bytes cannot be mapped; ask for a smaller one";
    return status;
  }
  made->view_ = WindowView::make(made->memory_->bytes(), made->layout_);
  made->rings_ = ClientRings(made->view_);
  *connection = std::move(made);
  return Status::kOk;
}

void Connection::submit(const nkv_daemon_submission& submission) {
  if (!rings_.put(submission)) return;
  // A full pipe wakes as well; a dead daemon is noticed elsewhere. A signal must not come of it.
  sigset_t broken_pipe;
  sigset_t before;
  ::sigemptyset(&broken_pipe);
  ::sigaddset(&broken_pipe, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &broken_pipe, &before);
  const bool broken = ::write(wake_daemon_.get(), "", 1) < 0 && errno == EPIPE;
  if (broken) {
    const timespec now{};
    ::sigtimedwait(&broken_pipe, nullptr, &now);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Status Connection::await(std::uint32_t head, Clock::time_point deadline) {
  if (spinner_.until([&] { return rings_.is_new(head); })) return Status::kOk;
  rings_.announce_sleep(true);
  Status status = Status::kOk;
  while (status == Status::kOk && !rings_.is_new(head)) {
    std::array<pollfd, 2> ready = {{{woken_.get(), POLLIN, 0}, {socket_.fd(), POLLRDHUP, 0}}};
    ::poll(ready.data(), ready.size(), poll_ms(deadline));
    if ((ready[0].revents & POLLIN) != 0) {
      clear();
    } else if ((ready[0].revents | ready[1].revents) != 0) {
      // What was answered before it died still counts.
      status = rings_.is_new(head) ? Status::kOk : Status::kNoDaemon;
    } else if (Clock::now() >= deadline) {
      status = Status::kTimeout;
    }
  }
  rings_.announce_sleep(false);
  return status;
}

void Connection::clear() const { empty_pipe(woken_.get()); }

bool Connection::is_alive() const {
  pollfd gone{socket_.fd(), POLLRDHUP, 0};
  return ::poll(&gone, 1, 0) == 0;
}

Status Connection::ask(const nkv_daemon_region& request, int fd) {
  const std::span<const int> fds = fd >= 0 ? std::span(&fd, 1) : std::span<const int>();
  // Wakes a daemon that sleeps, or is found by one that works.
  const Status status = socket_.send(bytes_of_message(request), fds);
  if (status == Status::kQueueFull) return Status::kTimeout;  // It has not read for long.
  if (status == Status::kOk) owed_.push_back({request.message, request.region});
  return status;
}

Status Connection::take_reply(Clock::time_point deadline, nkv_daemon_region* reply) {
  std::vector<FileDescriptor> none;
  Status status = Status::kTimeout;
  do {
    const std::chrono::milliseconds left(poll_ms(deadline));
    status = socket_.receive(writable_message(reply), &none, left);
  } while (status == Status::kTimeout && Clock::now() < deadline);
  if (status == Status::kTimeout) return status;
  if (status != Status::kOk) return Status::kNoDaemon;
  owed_.pop_front();
  return Status::kOk;
}

/// Nobody waits for it any more, so whatever region is there must go.
Status Connection::take_late_reply(Clock::time_point deadline) {
  const Owed owed = owed_.front();
  nkv_daemon_region reply{};
  const Status status = take_reply(deadline, &reply);
  if (status != Status::kOk) return status;
  const auto answer = static_cast<Status>(reply.status);
  if (owed.message == NKV_DAEMON_MESSAGE_REGISTER && answer == Status::kOk) {
    unwanted_.push_back(reply.region);
  } else if (owed.message == NKV_DAEMON_MESSAGE_UNREGISTER && answer == Status::kBusy) {
    unwanted_.push_back(owed.region);
  }
  return Status::kOk;
}

bool Connection::take_late_replies() {
  bool any = false;
  while (!owed_.empty() && take_late_reply(Clock::now()) == Status::kOk) any = true;
  return any;
}

Status Connection::exchange(const nkv_daemon_region& request, int fd, nkv_daemon_region* reply) {
  const Clock::time_point deadline = Clock::now() + answer_timeout_;
  Status status = Status::kOk;
  const auto take_owed = [&] {
    while (status == Status::kOk && !owed_.empty()) status = take_late_reply(deadline);
  };
  take_owed();
  // Once each: what is busy yet will be asked for the next time.
  for (const std::uint32_t region : std::exchange(unwanted_, {})) {
    if (status == Status::kOk) status = ask(forget_request(region), -1);
    if (status != Status::kOk) unwanted_.push_back(region);
  }
  take_owed();
  if (status == Status::kOk) status = ask(request, fd);
  if (status == Status::kOk) status = take_reply(deadline, reply);
  return status == Status::kOk ? static_cast<Status>(reply->status) : status;
}

Status Connection::register_region(int memfd, std::uint64_t offset, std::uint64_t bytes,
                                   std::uint32_t* region) {
  nkv_daemon_region request{};
  request.magic = NKV_DAEMON_MAGIC;
  request.message = NKV_DAEMON_MESSAGE_REGISTER;
  request.offset = offset;
  request.bytes = bytes;
  nkv_daemon_region reply{};
  const Status status = exchange(request, memfd, &reply);
  if (status == Status::kOk) *region = reply.region;
  return status;
}

Status Connection::unregister_region(std::uint32_t region) {
  nkv_daemon_region reply{};
  return exchange(forget_request(region), -1, &reply);
}

}  // namespace nearkv
