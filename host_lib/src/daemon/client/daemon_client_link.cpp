// How a client finds its daemon, and finds it again.
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "daemon/client/daemon_client.hpp"
#include "deadline.hpp"
#include "edge.hpp"

namespace nearkv {
namespace {

constexpr std::chrono::milliseconds kFirstPause{5};
constexpr std::chrono::milliseconds kLongestPause{200};

// How long after its last answer a daemon counts as alive without asking the kernel.
constexpr std::chrono::milliseconds kTrustTime{1};

ObjectStore::ClientOptions within_forever(ObjectStore::ClientOptions options) {
  options.patience = std::min<std::chrono::milliseconds>(options.patience, kForever);
  options.answer_timeout = std::min<std::chrono::milliseconds>(options.answer_timeout, kForever);
  return options;
}

std::vector<std::byte> encode(const Namespace& name) {
  nkv_daemon_namespace wire{};
  wire.tenant = name.tenant;
  wire.rank = name.rank;
  wire.group = name.group;
  wire.model_bytes = static_cast<std::uint32_t>(name.model.size());
  wire.dtype_bytes = static_cast<std::uint32_t>(name.dtype.size());
  wire.layout_bytes = static_cast<std::uint32_t>(name.layout.size());
  wire.salt_bytes = static_cast<std::uint32_t>(name.salt.size());
  const std::string texts = name.model + name.dtype + name.layout + name.salt;
  std::vector<std::byte> bytes(sizeof(wire) + texts.size());
  std::memcpy(bytes.data(), &wire, sizeof(wire));
  std::memcpy(bytes.data() + sizeof(wire), texts.data(), texts.size());
  return bytes;
}

}  // namespace

DaemonClient::DaemonClient(DaemonPlace place, const ObjectStore::ClientOptions& options)
    : place_(std::move(place)),
      options_(within_forever(options)),
      events_(::epoll_create1(EPOLL_CLOEXEC)),
      ready_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  watch(ready_.get(), EPOLLIN);
}

DaemonClient::~DaemonClient() = default;

void DaemonClient::watch(int fd, std::uint32_t events) const {
  epoll_event event{};
  event.events = events;
  ::epoll_ctl(events_.get(), EPOLL_CTL_ADD, fd, &event);
}

Status DaemonClient::connect(const DaemonPlace& place, const ObjectStore::ClientOptions& options,
                             std::unique_ptr<DaemonClient>* client, std::string* reason) {
  std::unique_ptr<DaemonClient> made(new DaemonClient(place, options));
  std::unique_ptr<Connection> connection;
  const Status status =
      Connection::open(place, options.window_bytes, made->options_, &connection, reason);
  if (status == Status::kTimeout) return Status::kNoDaemon;
  if (status != Status::kOk) return status;
  made->memory_ = std::make_unique<ClientMemory>(*connection);
  const Status attached = made->attach(std::move(connection));
  if (attached == Status::kOk) *client = std::move(made);
  return attached;
}

Status DaemonClient::attach(std::unique_ptr<Connection> connection) {
  requests_ = RangeAllocator(connection->layout().request_area_bytes);
  memory_->reset_carrier();
  flights_.assign(NKV_DAEMON_RING_ENTRIES, Flight());
  free_flights_.clear();
  for (std::uint32_t i = NKV_DAEMON_RING_ENTRIES; i-- > 0;) free_flights_.push_back(i);
  connection_ = std::move(connection);
  watch(connection_->notify_fd(), EPOLLIN);
  watch(connection_->socket_fd(), EPOLLRDHUP);
  ++life_;
  expects_daemon_ = expects_answers_ = true;
  return Status::kOk;
}

void DaemonClient::lose_connection() {
  if (!connection_) return;
  // Whoever still waits for the ring keeps it; nobody is to be woken by it any more.
  for (const int fd : {connection_->notify_fd(), connection_->socket_fd()}) {
    ::epoll_ctl(events_.get(), EPOLL_CTL_DEL, fd, nullptr);
  }
  connection_.reset();
  cancels_.clear();
  while (!unsent_.empty()) fail_rest(unsent_.front(), Status::kAborted);
  for (Flight& flight : flights_) {
    if (flight.tag == 0) continue;
    if (flight.reply != nullptr && !flight.is_over) flight.reply->status = Status::kNoDaemon;
    if (flight.job != nullptr) {
      std::fill_n(
          flight.job->result.items.begin() + static_cast<std::ptrdiff_t>(flight.piece.first),
          flight.piece.count, Status::kAborted);
      advance(flight.job, flight.piece.count);
    }
    flight.tag = 0;
  }
}

Status DaemonClient::ensure_connected(Lock& lock) {
  if (connection_ && Clock::now() - heard_ > kTrustTime && !connection_->is_alive()) {
    take_completions();
    lose_connection();
    changed_.notify_all();
  }
  if (connection_) return Status::kOk;
  if (Clock::now() < redial_) return Status::kTimeout;
  const Clock::time_point deadline = Clock::now() + options_.patience;
  std::chrono::milliseconds pause = kFirstPause;
  while (!connection_) {
    const Status status = at_edge([&] { return reconnect(); });
    if (status == Status::kOk) break;
    if (status == Status::kTimeout) redial_ = Clock::now() + options_.answer_timeout;
    // Once it was waited for in vain, calls fail at once until it is there.
    const bool late = !expects_daemon_ || Clock::now() + pause > deadline;
    if (status != Status::kNoDaemon || late) {
      expects_daemon_ = status != Status::kNoDaemon;
      return status;
    }
    lock.unlock();
    std::this_thread::sleep_for(pause);
    lock.lock();
    pause = std::min(pause * 2, kLongestPause);
  }
  return Status::kOk;
}

Status DaemonClient::reconnect() {
  std::string reason;
  std::unique_ptr<Connection> connection;
  Status status = Connection::open(place_, 0, options_, &connection, &reason);
  if (status == Status::kOk) status = memory_->attach(connection.get());
  if (status == Status::kOk) status = attach(std::move(connection));
  if (status == Status::kOk) status = open_again();
  if (status != Status::kOk) lose_connection();
  return status;
}

Reply DaemonClient::call_first(std::uint8_t operation, std::span<const std::byte> head,
                               std::uint64_t argument) {
  nkv_daemon_submission submission{};
  submission.operation = operation;
  submission.argument = argument;
  Flight* const flight = take_flight(head.size(), 0, 0);
  Reply reply;
  flight->reply = &reply;
  std::ranges::copy(head, connection_->window().requests.begin() +
                              static_cast<std::ptrdiff_t>(flight->request_at));
  send(flight, &submission);
  Status status = Status::kOk;
  // Nobody else can have sent anything yet, so the mutex may be kept.
  while (!flight->is_over && status == Status::kOk) {
    status = connection_->await(connection_->head(), Clock::now() + options_.answer_timeout);
    take_completions();
  }
  if (!flight->is_over) reply.status = status;
  end_flight(flight);
  return reply;
}

Status DaemonClient::open_again() {
  for (auto& [number, opened] : namespaces_) {
    const Reply reply = call_first(opened.operation, opened.request, 0);
    if (reply.status != Status::kOk) return reply.status;
    opened.number = static_cast<std::uint32_t>(reply.value);
  }
  if (watched_ == 0) return Status::kOk;
  ++lost_watches_;
  return call_first(NKV_DAEMON_OPERATION_WATCH, {}, watched_).status;
}

Status DaemonClient::open_namespace(const Namespace& name, std::uint32_t* number) {
  return open_by(NKV_DAEMON_OPERATION_OPEN_NAMESPACE, encode(name), number);
}

Status DaemonClient::adopt_namespace(const NamespaceInfo& info, std::uint32_t* number) {
  nkv_daemon_namespace_info wire{};
  if (info.text.size() > sizeof(wire.text)) return Status::kNameTooLong;
  wire.tenant = info.tenant;
  wire.text_bytes = static_cast<std::uint32_t>(info.text.size());
  std::ranges::copy(info.digest, wire.digest);
  std::ranges::copy(info.text, wire.text);
  const auto bytes = std::as_bytes(std::span(&wire, 1));
  return open_by(NKV_DAEMON_OPERATION_ADOPT_NAMESPACE, {bytes.begin(), bytes.end()}, number);
}

Status DaemonClient::open_by(std::uint8_t operation, std::vector<std::byte> request,
                             std::uint32_t* number) {
  const std::scoped_lock opening(opening_);
  Call call;
  call.operation = operation;
  call.head = request;
  const Reply reply = this->call(call);
  if (reply.status != Status::kOk) return reply.status;
  const auto current = static_cast<std::uint32_t>(reply.value);
  const std::scoped_lock lock(mutex_);
  const auto same = std::ranges::find_if(
      namespaces_, [&](const auto& known) { return known.second.number == current; });
  if (same != namespaces_.end()) {
    ++same->second.users;
    *number = same->first;
    return Status::kOk;
  }
  // Another pool may have given the number to another namespace before.
  std::uint32_t known = current;
  while (namespaces_.contains(known)) ++known;
  namespaces_.emplace(known, Opened{operation, std::move(request), current});
  *number = known;
  return Status::kOk;
}

Status DaemonClient::close_namespace(std::uint32_t number) {
  const std::scoped_lock opening(opening_);
  Call call;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = namespaces_.find(number);
    if (found == namespaces_.end()) return Status::kNotFound;
    if (--found->second.users != 0) return Status::kOk;
    call.number = found->second.number;
    call.life = life_;
    namespaces_.erase(found);
    if (!connection_) return Status::kOk;  // What the daemon had open has ended with it.
  }
  call.operation = NKV_DAEMON_OPERATION_CLOSE_NAMESPACE;
  const Status status = this->call(call).status;
  return status == Status::kNotFound ? Status::kOk : status;
}

Status DaemonClient::watch(std::size_t most) {
  Call call;
  call.operation = NKV_DAEMON_OPERATION_WATCH;
  call.argument = most;
  const Reply reply = this->call(call);
  if (reply.status != Status::kOk) return reply.status;
  const std::scoped_lock lock(mutex_);
  watched_ = most;
  lost_watches_ = 0;
  return Status::kOk;
}

std::vector<StoreEvent> DaemonClient::take_events(std::uint64_t* missed) {
  constexpr std::size_t kEventsAtATime = 1024;
  Call call;
  call.operation = NKV_DAEMON_OPERATION_TAKE_EVENTS;
  call.result_bytes = kEventsAtATime * sizeof(nkv_daemon_event);
  std::vector<StoreEvent> events;
  *missed = 0;
  Reply reply;
  do {
    reply = this->call(call);
    if (reply.status != Status::kOk) break;
    *missed += reply.value;
    take_events(reply, &events);
  } while (reply.count == kEventsAtATime);
  const std::scoped_lock lock(mutex_);
  if (reply.status == Status::kTimeout) {
    // What it answers later is lost: whoever asks next, and is answered, has missed it.
    ++lost_watches_;
    return events;
  }
  *missed += std::exchange(lost_watches_, 0);
  return events;
}

void DaemonClient::take_events(const Reply& reply, std::vector<StoreEvent>* events) const {
  const std::scoped_lock lock(mutex_);
  for (std::size_t i = 0; (i + 1) * sizeof(nkv_daemon_event) <= reply.result.size(); ++i) {
    if (i == reply.count) break;
    nkv_daemon_event wire{};
    std::memcpy(&wire, reply.result.data() + i * sizeof(wire), sizeof(wire));
    StoreEvent event;
    event.kind = static_cast<StoreEvent::Kind>(wire.kind);
    event.tier = wire.tier;
    event.bytes = wire.bytes;
    event.key_is_digest = wire.key_is_digest != 0;
    const auto key = std::as_bytes(std::span(wire.key))
                         .first(std::min<std::size_t>(wire.key_bytes, sizeof(wire.key)));
    event.key.assign(key.begin(), key.end());
    const auto known = std::ranges::find_if(namespaces_, [&](const auto& opened) {
      return opened.second.number == wire.namespace_number;
    });
    event.namespace_number = known != namespaces_.end() ? known->first : wire.namespace_number;
    events->push_back(std::move(event));
  }
}

}  // namespace nearkv
