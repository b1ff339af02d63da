#include "daemon/server/client_thread.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "daemon/wire/spin.hpp"
#include "daemon/wire/wake_pipe.hpp"
#include "edge.hpp"

namespace nearkv {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kHelloTime{2};
constexpr std::chrono::microseconds kSocketPeriod{500};  // While there is work.
constexpr std::uint64_t kRequestAreaBytes = 4 << 20;

std::uint64_t now_s() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

}  // namespace

ClientThread::ClientThread(const ClientEnvironment& environment, PacketSocket socket)
    : environment_(environment), socket_(std::move(socket)) {
  thread_ = std::thread([this] {
    // A client may have closed its end of a pipe.
    sigset_t broken_pipe;
    ::sigemptyset(&broken_pipe);
    ::sigaddset(&broken_pipe, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);
    const Status status = at_edge([&] {
      serve();
      return Status::kOk;
    });
    if (status != Status::kOk) {
      environment_.log->error("client lost", {{"reason", std::string(message(status))}});
    }
    // The socket is closed later, by another thread; the client shall know now.
    ::shutdown(socket_.fd(), SHUT_RDWR);
    finished_ = true;
    environment_.finished();
  });
}

ClientThread::~ClientThread() {
  stop();
  thread_.join();
}

void ClientThread::stop() {
  stop_ = true;
  ::shutdown(socket_.fd(), SHUT_RDWR);
}

Status ClientThread::receive_hello(nkv_daemon_hello* hello) {
  std::vector<FileDescriptor> fds;
  const Status status = socket_.receive(writable_message(hello), &fds, kHelloTime);
  if (status != Status::kOk) return status;
  if (hello->magic != NKV_DAEMON_MAGIC || hello->message != NKV_DAEMON_MESSAGE_HELLO) {
    return Status::kBadArgument;
  }
  return hello->version == NKV_DAEMON_VERSION ? Status::kOk : Status::kBadAbi;
}

void ClientThread::refuse(Status status, const std::string& why) {
  nkv_daemon_welcome refusal = welcome_to({});
  refusal.status = static_cast<std::uint8_t>(status);
  std::memcpy(refusal.reason, why.data(), std::min(why.size(), sizeof(refusal.reason)));
  (void)socket_.send(bytes_of_message(refusal));
  environment_.session.counters->refused.fetch_add(1);
  environment_.log->warning("client refused", {{"process", std::uint64_t(peer_.process)},
                                               {"user", std::uint64_t{peer_.user}},
                                               {"reason", why}});
}

void ClientThread::serve() {
  if (socket_.peer(&peer_) != Status::kOk) return;
  nkv_daemon_hello hello{};
  const Status status = receive_hello(&hello);
  if (stop_) return;
  if (status == Status::kBadAbi) {
    refuse(status, "the daemon speaks version " + std::to_string(NKV_DAEMON_VERSION) +
                       " of the protocol; use the library of the same release");
    return;
  }
  if (status != Status::kOk) {
    refuse(Status::kBadArgument, "no hello of this protocol came");
    return;
  }
  const std::vector<Grant> grants = environment_.session.tenants->grants_of(peer_);
  if (grants.empty()) {
    refuse(Status::kDenied, "no tenant of the daemon admits user " + std::to_string(peer_.user) +
                                " or its groups; add it to a [[tenant]] of the configuration");
    return;
  }
  const bool room = environment_.connected->fetch_add(1) < environment_.config->clients.max;
  if (!room) {
    refuse(Status::kQueueFull, "the daemon has as many clients as clients.max allows");
  } else if (!environment_.session.tenants->connect(grants.front())) {
    refuse(Status::kQueueFull, "the tenant has as many clients as its max_clients allows");
  } else {
    serve_welcomed(hello, grants);
    environment_.session.tenants->disconnect(grants.front());
  }
  environment_.connected->fetch_sub(1);
}

void ClientThread::serve_welcomed(const nkv_daemon_hello& hello, const std::vector<Grant>& grants) {
  const WindowLayout layout = WindowLayout::make(
      kRequestAreaBytes, std::min(hello.data_bytes, environment_.config->clients.window_bytes));
  FileDescriptor window_fd;
  SharedMemory window;
  WakePipe to_daemon;
  WakePipe to_client;
  Status status = SharedMemory::create(layout.window_bytes, &window_fd, &window);
  if (status == Status::kOk && (!WakePipe::make(&to_daemon) || !WakePipe::make(&to_client))) {
    status = Status::kOutOfMemory;
  }
  if (status != Status::kOk) {
    refuse(status, "the daemon has no memory or descriptors left for another client");
    return;
  }
  const WindowView view = WindowView::make(window.bytes(), layout);
  const nkv_daemon_welcome welcome = welcome_to(layout);
  const int fds[] = {window_fd.get(), to_daemon.write.get(), to_client.read.get()};
  if (socket_.send(bytes_of_message(welcome), fds) != Status::kOk) return;
  // What stays open here are the daemon's own ends.
  window_fd = FileDescriptor();
  to_daemon.write = FileDescriptor();
  to_client.read = FileDescriptor();

  auto client = std::make_shared<ClientStatus>();
  client->process = static_cast<std::uint32_t>(peer_.process);
  client->user = peer_.user;
  client->tenant = grants.front().tenant;
  client->connected_s = now_s();
  environment_.session.clients->add(client);
  environment_.session.counters->connections.fetch_add(1);
  const Log::Fields who = {{"process", std::uint64_t(peer_.process)},
                           {"user", std::uint64_t{peer_.user}},
                           {"tenant", std::uint64_t{client->tenant}}};
  environment_.log->info("client connected", who);
  std::string end;
  {
    // A client that comes back from another life of the daemon brings its old window.
    const auto& limits = environment_.config->clients;
    Regions regions(view.data, limits.registered_bytes + limits.window_bytes);
    Session session(environment_.session, grants, client.get(), view, &regions);
    end = run(&session, &regions, client.get(), to_client.write.get(), to_daemon.read.get());
  }
  environment_.session.clients->remove(client);
  Log::Fields fields = who;
  fields.emplace_back("requests", client->requests.load());
  if (end.empty()) {
    environment_.log->info("client gone", fields);
  } else {
    fields.emplace_back("reason", end);
    environment_.session.counters->protocol_errors.fetch_add(1);
    environment_.log->warning("client cut off", fields);
  }
}

std::string ClientThread::run(Session* session, Regions* regions, ClientStatus* client,
                              int wake_client, int woken) {
  Clock::time_point socket_read = Clock::now();
  Spinner spinner;
  while (!stop_) {
    const Session::Step step = session->step();
    if (session->take_wake()) wake_pipe(wake_client);
    if (step == Session::Step::kBroken) return session->fault();
    const Clock::time_point now = Clock::now();
    if (now - socket_read > kSocketPeriod) {
      socket_read = now;
      if (!read_socket(session, regions, client)) break;
    }
    if (step == Session::Step::kWorked || spinner.until([&] { return session->has_work(); }))
      continue;
    session->announce_sleep(true);
    if (!session->has_work()) {
      std::array<pollfd, 2> ready = {{{socket_.fd(), POLLIN, 0}, {woken, POLLIN, 0}}};
      ::poll(ready.data(), ready.size(), -1);
      if ((ready[1].revents & POLLHUP) != 0) break;
      if (ready[1].revents != 0) empty_pipe(woken);
      socket_read = {};
    }
    session->announce_sleep(false);
  }
  return {};
}

bool ClientThread::read_socket(Session* session, Regions* regions, ClientStatus* client) {
  nkv_daemon_region request{};
  std::vector<FileDescriptor> fds;
  const Status received =
      socket_.receive(writable_message(&request), &fds, std::chrono::milliseconds(0));
  if (received == Status::kTimeout) return true;
  if (received != Status::kOk || request.magic != NKV_DAEMON_MAGIC) return false;
  nkv_daemon_region reply{};
  reply.magic = NKV_DAEMON_MAGIC;
  reply.message = NKV_DAEMON_MESSAGE_REPLY;
  Status status = Status::kBadArgument;
  if (request.message == NKV_DAEMON_MESSAGE_REGISTER && fds.size() == 1) {
    status = regions->add(fds.front().get(), request.offset, request.bytes, &reply.region);
  } else if (request.message == NKV_DAEMON_MESSAGE_UNREGISTER) {
    status = session->is_quiet() ? regions->remove(request.region) : Status::kBusy;
  }
  reply.status = static_cast<std::uint8_t>(status);
  client->regions.store(regions->size(), std::memory_order_relaxed);
  return socket_.send(bytes_of_message(reply)) == Status::kOk;
}

}  // namespace nearkv
