#include "remote/bridge.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "daemon/wire/poll_time.hpp"
#include "daemon/wire/spin.hpp"
#include "daemon/wire/wake_pipe.hpp"
#include "deadline.hpp"
#include "edge.hpp"
#include "remote/address.hpp"

namespace nearkv {
namespace {

constexpr std::chrono::seconds kClientTime{10};
constexpr std::chrono::microseconds kSocketPeriod{500};  // While there is work.

bool same_file(int left, int right) {
  struct stat of_left{};
  struct stat of_right{};
  return ::fstat(left, &of_left) == 0 && ::fstat(right, &of_right) == 0 &&
         of_left.st_dev == of_right.st_dev && of_left.st_ino == of_right.st_ino;
}

bool brings_bytes(const nkv_daemon_submission& submission) {
  return submission.operation == NKV_DAEMON_OPERATION_SET ||
         submission.operation == NKV_DAEMON_OPERATION_SET_PARTS;
}

}  // namespace

Bridge::Bridge(const RemoteStoreOptions& options, std::shared_ptr<BridgeMemory> memory)
    : options_(options),
      memory_(std::move(memory)),
      stop_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Status Bridge::connect(const UcxContext& context, const RemoteStoreOptions& options,
                       std::shared_ptr<BridgeMemory>* memory, PacketSocket* socket,
                       std::unique_ptr<Bridge>* bridge, std::string* reason) {
  const Clock::time_point by = deadline_after(options.connect_time);
  std::unique_ptr<Bridge> made(new Bridge(options, *memory));
  std::vector<std::byte> theirs;
  std::string why;
  Status status = Link::make(context, made.get(), &made->link_, &why);
  if (status == Status::kOk) status = made->shake_hands(by, &theirs, &why);
  if (status == Status::kOk) status = made->make_memory(&why);
  if (status == Status::kOk) {
    made->link_->connect(theirs);
    if (!made->link_->await_connection(by)) {
      why = made->link_->fault();
      status = Status::kNoDaemon;
    }
  }
  if (status != Status::kOk) {
    *reason = options.address + ": " + why;
    return status;
  }
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    *reason = "no socket is left";
    return Status::kIoError;
  }
  *socket = PacketSocket(FileDescriptor(ends[0]));
  made->socket_ = PacketSocket(FileDescriptor(ends[1]));
  *memory = made->memory_;
  made->thread_ = std::thread([raw = made.get()] {
    // A client may have closed its end of a pipe.
    sigset_t broken_pipe;
    ::sigemptyset(&broken_pipe);
    ::sigaddset(&broken_pipe, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);
    (void)at_edge([&] {
      raw->serve();
      return Status::kOk;
    });
    raw->link_.reset();
    raw->socket_ = PacketSocket();
  });
  *bridge = std::move(made);
  return Status::kOk;
}

Bridge::~Bridge() {
  stop_ = true;
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(stop_fd_.get(), &one, sizeof(one));
  thread_.join();
}

Status Bridge::shake_hands(Clock::time_point by, std::vector<std::byte>* theirs,
                           std::string* reason) {
  sockaddr_storage address{};
  TcpSocket socket;
  Status status = parse_address(options_.address, &address, reason);
  if (status != Status::kOk) return status;
  if (TcpSocket::connect(address, by, &socket, reason) != Status::kOk) return Status::kNoDaemon;
  Nonce nonce{};
  status = make_nonce(&nonce);
  if (status != Status::kOk) return status;
  nkv_remote_hello hello{};
  hello.kind = NKV_REMOTE_KIND_HELLO;
  hello.data_bytes = memory_ ? memory_->layout.data_bytes : options_.window_bytes;
  std::ranges::copy(nonce, hello.nonce);
  nkv_remote_hello answer{};
  status = send_hello(&socket, hello, by);
  if (status == Status::kOk) status = receive_hello(&socket, &answer, by);
  if (status == Status::kOk && answer.kind == NKV_REMOTE_KIND_CHALLENGE) {
    Nonce server{};
    std::ranges::copy(answer.nonce, server.begin());
    status = Proofs::make(options_.secret, nonce, server, &proofs_.emplace());
    if (status != Status::kOk) return status;
    nkv_remote_hello proof{};
    proof.kind = NKV_REMOTE_KIND_PROOF;
    std::ranges::copy(proofs_->client, proof.proof);
    status = send_hello(&socket, proof, by, link_->address());
    if (status == Status::kOk) status = receive_hello(&socket, &welcome_, by);
  } else {
    welcome_ = answer;
  }
  if (status == Status::kOk) {
    status = check_welcome(reason);
    if (status != Status::kOk) return status;
    status = receive_address(&socket, theirs, by);
  }
  if (status == Status::kOk) return status;
  *reason = status == Status::kTimeout ? "no answer in time"
            : status == Status::kNoDaemon
                ? "it hung up: it has no room, or is no NearKV server of this release"
                : "whoever answers is no NearKV server of this release";
  return Status::kNoDaemon;
}

Status Bridge::check_welcome(std::string* reason) const {
  if (welcome_.kind == NKV_REMOTE_KIND_WELCOME && welcome_.status != NKV_STATUS_OK) {
    const auto* const text = reinterpret_cast<const char*>(welcome_.reason);
    *reason = std::string(text, ::strnlen(text, sizeof(welcome_.reason)));
    return static_cast<Status>(welcome_.status);
  }
  if (welcome_.kind != NKV_REMOTE_KIND_WELCOME || welcome_.version != NKV_REMOTE_VERSION) {
    *reason = "whoever answers is no NearKV server of this release";
    return Status::kBadAbi;
  }
  if (!proofs_ || !same_proof(welcome_.proof, proofs_->server)) {
    *reason = "whoever answers there does not know the secret";
    return Status::kDenied;
  }
  return Status::kOk;
}

Status Bridge::make_memory(std::string* reason) {
  constexpr std::uint64_t kMostRequestBytes = 1 << 30;
  if (welcome_.request_area_bytes > kMostRequestBytes ||
      welcome_.data_bytes > (memory_ ? memory_->layout.data_bytes : options_.window_bytes)) {
    *reason = "the server gives more than it was asked for";
    return Status::kBadAbi;
  }
  if (!memory_) {
    auto memory = std::make_shared<BridgeMemory>();
    memory->layout = WindowLayout::make(welcome_.request_area_bytes, welcome_.data_bytes);
    const Status status =
        SharedMemory::create(memory->layout.window_bytes, &memory->fd, &memory->window);
    if (status != Status::kOk) {
      *reason = "no memory for a window of " + std::to_string(memory->layout.window_bytes);
      return status;
    }
    memory_ = std::move(memory);
  } else if (welcome_.data_bytes != memory_->layout.data_bytes) {
    *reason = "the server gives less memory than before; connect anew";
    return Status::kNoDaemon;
  }
  mirror_ =
      std::make_unique<Mirror>(proofs_->session, memory_->data(), NKV_REMOTE_KIND_COMPLETION, this);
  return Status::kOk;
}

std::optional<Runs> Bridge::place(std::span<const std::byte> header, std::size_t bytes) {
  return mirror_->place(header, bytes);
}

void Bridge::landed(std::span<const std::byte> header, const Runs& data) {
  if (!mirror_->landed(header, data)) link_->break_off("a checksum is wrong");
}

void Bridge::serve() {
  if (!welcome_client()) return;
  Spinner spinner;
  Clock::time_point socket_read = Clock::now();
  while (!stop_ && link_->fault().empty() && !is_late()) {
    bool worked = link_->progress();
    worked = take_submissions() || worked;
    const Clock::time_point now = Clock::now();
    if (now - socket_read > kSocketPeriod) {
      socket_read = now;
      if (!read_socket()) return;
    }
    const auto has_work = [&] {
      return link_->progress() || (!held_ && local_->rings.has_submission());
    };
    if (worked || spinner.until(has_work)) continue;
    sleep();
    socket_read = {};
  }
}

bool Bridge::welcome_client() {
  nkv_daemon_hello hello{};
  std::vector<FileDescriptor> none;
  const Status heard = socket_.receive(writable_message(&hello), &none, kClientTime);
  if (heard != Status::kOk || hello.magic != NKV_DAEMON_MAGIC) return false;
  // The first connection's window is the one whose data area stays; later ones need none.
  const bool is_first = hello.data_bytes != 0;
  const WindowLayout layout =
      is_first ? memory_->layout : WindowLayout::make(welcome_.request_area_bytes, 0);
  FileDescriptor fd;
  SharedMemory window;
  if (is_first) {
    fd = FileDescriptor(::fcntl(memory_->fd.get(), F_DUPFD_CLOEXEC, 0));
    if (SharedMemory::map(fd.get(), 0, layout.window_bytes, &window) != Status::kOk) return false;
  } else if (SharedMemory::create(layout.window_bytes, &fd, &window) != Status::kOk) {
    return false;
  }
  local_ = std::make_unique<Local>(layout, std::move(window));
  WakePipe to_us;
  WakePipe to_client;
  if (!WakePipe::make(&to_us) || !WakePipe::make(&to_client)) return false;
  local_->woken = std::move(to_us.read);
  local_->wake_client = std::move(to_client.write);
  const int fds[] = {fd.get(), to_us.write.get(), to_client.read.get()};
  return socket_.send(bytes_of_message(welcome_to(layout)), fds) == Status::kOk;
}

bool Bridge::take_submissions() {
  bool any = false;
  nkv_daemon_submission submission{};
  while (true) {
    if (held_) {
      submission = *held_;
    } else if (const auto taken = local_->rings.take(&submission);
               taken != DaemonRings::Taken::kOne) {
      if (taken == DaemonRings::Taken::kOverrun) link_->break_off("the client overruns its rings");
      return any;
    }
    held_.reset();
    if (!send(submission)) {
      held_ = submission;
      return any;
    }
    any = true;
  }
}

bool Bridge::send(const nkv_daemon_submission& submission) {
  const auto request =
      local_->view.requests.subspan(submission.request_at, submission.request_bytes);
  std::vector<Run> runs;
  if (brings_bytes(submission)) {
    const auto items = runs_of_items(request, submission.items, memory_->data().size());
    if (!items) {
      link_->break_off("the client names bytes that it has not");
      return true;
    }
    for (const auto& item : *items) {
      for (const Run& run : item) append_run(&runs, run);
    }
  }
  const std::uint64_t messages = Mirror::messages_for(runs);
  if (unanswered_ != 0 && unanswered_ + messages > NKV_REMOTE_MAX_UNLANDED) return false;
  if (in_flight_.empty()) sent_ = Clock::now();
  in_flight_.emplace(submission.tag, InFlight{submission, messages});
  unanswered_ += messages;
  mirror_->send_data(link_.get(), runs);
  mirror_->send_entry(link_.get(), NKV_REMOTE_KIND_SUBMISSION,
                      std::as_bytes(std::span(&submission, 1)), request);
  return true;
}

std::optional<std::span<std::byte>> Bridge::place_of(const Entry& entry, std::size_t bytes) {
  nkv_daemon_completion completion{};
  std::memcpy(&completion, entry.data(), sizeof(completion));
  const auto found = in_flight_.find(completion.tag);
  if (found == in_flight_.end() || found->second.submission.result_bytes != bytes) {
    return std::nullopt;
  }
  return local_->view.requests.subspan(found->second.submission.result_at, bytes);
}

void Bridge::take(const Entry& entry) {
  nkv_daemon_completion completion{};
  std::memcpy(&completion, entry.data(), sizeof(completion));
  const auto found = in_flight_.find(completion.tag);
  if (found == in_flight_.end()) {
    link_->break_off("an answer to nothing");
    return;
  }
  const bool notify = (found->second.submission.flags & NKV_DAEMON_FLAG_NOTIFY) != 0;
  unanswered_ -= found->second.messages;
  in_flight_.erase(found);
  if (!local_->rings.put(completion, notify)) return;
  wake_pipe(local_->wake_client.get());
}

bool Bridge::is_late() const {
  return !in_flight_.empty() &&
         Clock::now() - std::max(mirror_->heard(), sent_) > options_.answer_time;
}

void Bridge::sleep() {
  local_->rings.announce_sleep(true);
  const bool nothing = held_ || !local_->rings.has_submission();
  if (nothing && link_->fault().empty() && link_->may_sleep()) {
    const int timeout_ms = in_flight_.empty() ? -1 : poll_ms(deadline_after(options_.answer_time));
    std::array<pollfd, 4> ready = {{{link_->event_fd(), POLLIN, 0},
                                    {local_->woken.get(), POLLIN, 0},
                                    {socket_.fd(), POLLIN, 0},
                                    {stop_fd_.get(), POLLIN, 0}}};
    ::poll(ready.data(), ready.size(), timeout_ms);
    empty_pipe(local_->woken.get());
  }
  local_->rings.announce_sleep(false);
}

bool Bridge::read_socket() {
  nkv_daemon_region request{};
  std::vector<FileDescriptor> fds;
  const Status received =
      socket_.receive(writable_message(&request), &fds, std::chrono::milliseconds(0));
  if (received == Status::kTimeout) return true;
  if (received != Status::kOk || request.magic != NKV_DAEMON_MAGIC) return false;
  nkv_daemon_region reply{};
  reply.magic = NKV_DAEMON_MAGIC;
  reply.message = NKV_DAEMON_MESSAGE_REPLY;
  // Only the data area of the first connection, which is region 0 for all of them, has its like on
  // the server; other memory is carried through it.
  const bool is_data = request.message == NKV_DAEMON_MESSAGE_REGISTER && fds.size() == 1 &&
                       same_file(fds.front().get(), memory_->fd.get()) &&
                       request.offset == memory_->layout.data_at &&
                       request.bytes == memory_->layout.data_bytes;
  reply.status = static_cast<std::uint8_t>(is_data ? Status::kOk : Status::kUnsupported);
  return socket_.send(bytes_of_message(reply)) == Status::kOk;
}

}  // namespace nearkv
