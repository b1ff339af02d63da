#include "remote/server_peer.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "daemon/server/request.hpp"
#include "daemon/wire/spin.hpp"
#include "edge.hpp"

namespace nearkv {
namespace {

constexpr std::uint64_t kRequestAreaBytes = 4 << 20;
constexpr std::chrono::seconds kHelloTime{2};

std::uint64_t now_s() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

void refuse(Status status, const std::string& why, nkv_remote_hello* answer) {
  answer->status = static_cast<std::uint8_t>(status);
  std::memcpy(answer->reason, why.data(), std::min(why.size(), sizeof(answer->reason)));
}

}  // namespace

ServerPeer::Served::Served(const SessionContext& context, const PeerTerms& terms,
                           const WindowLayout& layout, SharedMemory memory, int memfd,
                           ClientStatus* client, const Proof& session_proof, Mirror::Owner* owner)
    : store(context.store),
      window(std::move(memory)),
      view(WindowView::make(window.bytes(), layout)),
      regions(view.data, 0),
      rings(view),
      mirror(session_proof, view.data, NKV_REMOTE_KIND_SUBMISSION, owner),
      session(context, terms.grants, client, view, &regions) {
  // A store in another process then needs no copy more; without that it carries the bytes.
  if (!view.data.empty()) (void)store->register_memory(view.data, memfd, layout.data_at);
}

ServerPeer::Served::~Served() { (void)store->unregister_memory(view.data); }

ServerPeer::ServerPeer(const SessionContext& session, const PeerTerms* terms,
                       const UcxContext& context, FileDescriptor socket,
                       std::function<void()> finished)
    : context_(session),
      terms_(terms),
      ucx_(context),
      finished_call_(std::move(finished)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      socket_(std::move(socket)) {
  thread_ = std::thread([this] {
    (void)at_edge([&] {
      serve();
      return Status::kOk;
    });
    finished_ = true;
    finished_call_();
  });
}

ServerPeer::~ServerPeer() {
  stop_ = true;
  socket_.cut_off();
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof(one));
  thread_.join();
}

void ServerPeer::serve() {
  if (greet()) run();
  // First nobody writes to the window any more, then it goes.
  link_.reset();
  served_.reset();
  if (!client_) return;
  context_.clients->remove(client_);
  terms_->grants.front().counters->clients.fetch_sub(1);
}

bool ServerPeer::greet() {
  const auto by = std::chrono::steady_clock::now() + kHelloTime;
  nkv_remote_hello hello{};
  nkv_remote_hello answer{};
  if (receive_hello(&socket_, &hello, by) != Status::kOk) return false;
  if (hello.kind != NKV_REMOTE_KIND_HELLO) return false;
  std::vector<std::byte> theirs;
  std::vector<std::byte> ours;
  Status status = Status::kBadAbi;
  if (hello.version != NKV_REMOTE_VERSION) {
    refuse(status, "the server is of another version; use the same release", &answer);
  } else {
    Proofs proofs;
    status = challenge(hello, &theirs, &proofs, by);
    if (status != Status::kOk && status != Status::kDenied) return false;
    if (status == Status::kOk) {
      std::ranges::copy(proofs.server, answer.proof);
      status = welcome(proofs.session, std::min(hello.data_bytes, terms_->window_bytes), &answer);
    } else {
      refuse(status, "the secret is another one than the server's", &answer);
    }
  }
  answer.kind = NKV_REMOTE_KIND_WELCOME;
  if (status != Status::kOk) {
    context_.counters->refused.fetch_add(1);
  } else {
    ours = link_->address();
  }
  if (send_hello(&socket_, answer, by, ours) != Status::kOk || status != Status::kOk) return false;
  link_->connect(theirs);
  return true;
}

Status ServerPeer::challenge(const nkv_remote_hello& hello, std::vector<std::byte>* address,
                             Proofs* proofs, TcpSocket::Deadline by) {
  Nonce client{};
  std::ranges::copy(hello.nonce, client.begin());
  Nonce server{};
  Status status = make_nonce(&server);
  if (status != Status::kOk) return status;
  nkv_remote_hello challenge{};
  challenge.kind = NKV_REMOTE_KIND_CHALLENGE;
  std::ranges::copy(server, challenge.nonce);
  nkv_remote_hello proof{};
  status = send_hello(&socket_, challenge, by);
  if (status == Status::kOk) status = receive_hello(&socket_, &proof, by);
  if (status == Status::kOk && proof.kind != NKV_REMOTE_KIND_PROOF) status = Status::kBadArgument;
  // All of it, so that closing loses no answer.
  if (status == Status::kOk) status = receive_address(&socket_, address, by);
  if (status == Status::kOk) status = Proofs::make(terms_->secret, client, server, proofs);
  if (status != Status::kOk) return status;
  return same_proof(proof.proof, proofs->client) ? Status::kOk : Status::kDenied;
}

void ServerPeer::run() {
  Spinner spinner;
  while (!stop_ && link_->fault().empty()) {
    bool worked = link_->progress();
    const Session::Step step = served_->session.step();
    (void)served_->session.take_wake();
    if (step == Session::Step::kBroken) {
      context_.counters->protocol_errors.fetch_add(1);
      return;
    }
    worked = worked || step == Session::Step::kWorked;
    answer();
    if (!worked && !spinner.until([&] { return link_->progress(); })) sleep();
  }
}

void ServerPeer::sleep() {
  if (served_->session.has_work()) return;
  if (!link_->fault().empty() || !link_->may_sleep()) return;
  std::array<pollfd, 2> ready = {{{link_->event_fd(), POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
  ::poll(ready.data(), ready.size(), -1);
}

std::optional<Runs> ServerPeer::place(std::span<const std::byte> header, std::size_t bytes) {
  return served_->mirror.place(header, bytes);
}

void ServerPeer::landed(std::span<const std::byte> header, const Runs& data) {
  if (!served_->mirror.landed(header, data)) link_->break_off("a checksum is wrong");
}

Status ServerPeer::welcome(const Proof& session, std::uint64_t data_bytes,
                           nkv_remote_hello* answer) {
  const WindowLayout layout = WindowLayout::make(kRequestAreaBytes, data_bytes);
  FileDescriptor fd;
  SharedMemory window;
  std::string reason;
  Status status = Link::make(ucx_, this, &link_, &reason);
  if (status == Status::kOk) {
    reason = "the server has no memory left for another peer";
    status = SharedMemory::create(layout.window_bytes, &fd, &window);
  }
  if (status != Status::kOk) {
    refuse(status, reason, answer);
    return status;
  }
  client_ = std::make_shared<ClientStatus>();
  client_->tenant = terms_->grants.front().tenant;
  client_->connected_s = now_s();
  served_ = std::make_unique<Served>(context_, *terms_, layout, std::move(window), fd.get(),
                                     client_.get(), session, this);
  context_.clients->add(client_);
  terms_->grants.front().counters->clients.fetch_add(1);
  context_.counters->connections.fetch_add(1);
  answer->request_area_bytes = layout.request_area_bytes;
  answer->data_bytes = layout.data_bytes;
  welcome_ = true;
  return Status::kOk;
}

std::optional<std::span<std::byte>> ServerPeer::place_of(const Entry& entry, std::size_t bytes) {
  nkv_daemon_submission submission{};
  std::memcpy(&submission, entry.data(), sizeof(submission));
  const std::span<std::byte> requests = served_->view.requests;
  if (submission.request_bytes != bytes || !lies_in(requests, submission)) return std::nullopt;
  return requests.subspan(submission.request_at, bytes);
}

void ServerPeer::take(const Entry& entry) {
  InFlight flight;
  nkv_daemon_submission& submission = flight.submission;
  std::memcpy(&submission, entry.data(), sizeof(submission));
  // Work that is done is answered first, so that the rings can hold whatever a peer may send.
  answer();
  if (served_->in_flight.size() >= NKV_DAEMON_RING_ENTRIES ||
      served_->in_flight.contains(submission.tag)) {
    link_->break_off("more requests in flight than the ring has entries");
    return;
  }
  if (submission.operation == NKV_DAEMON_OPERATION_GET) {
    const auto request =
        served_->view.requests.subspan(submission.request_at, submission.request_bytes);
    auto runs = runs_of_items(request, submission.items, served_->view.data.size());
    // What makes no sense is the session's to refuse.
    if (runs) flight.runs = std::move(*runs);
  }
  (void)served_->rings.put(submission);
  served_->in_flight.emplace(submission.tag, std::move(flight));
}

void ServerPeer::answer() {
  nkv_daemon_completion completion{};
  while (served_->rings.take(&completion)) {
    const auto found = served_->in_flight.find(completion.tag);
    if (found == served_->in_flight.end()) continue;
    const InFlight flight = std::move(found->second);
    served_->in_flight.erase(found);
    const nkv_daemon_submission& submission = flight.submission;
    const auto result =
        served_->view.requests.subspan(submission.result_at, submission.result_bytes);
    std::vector<Run> runs;
    const bool has_result = job_result_bytes(flight.runs.size()) <= result.size();
    for (std::size_t i = 0;
         completion.status == NKV_STATUS_OK && has_result && i < flight.runs.size(); ++i) {
      std::uint32_t left = 0;
      std::memcpy(&left, result.data() + i * sizeof(left), sizeof(left));
      const auto status = result[flight.runs.size() * sizeof(left) + i];
      if (status != std::byte{NKV_STATUS_OK}) continue;
      for (const Run& run : flight.runs[i]) {
        const std::uint64_t bytes = std::min<std::uint64_t>(run.bytes, left);
        append_run(&runs, {run.offset, bytes});
        left -= static_cast<std::uint32_t>(bytes);
      }
    }
    served_->mirror.send_data(link_.get(), runs);
    served_->mirror.send_entry(link_.get(), NKV_REMOTE_KIND_COMPLETION,
                               std::as_bytes(std::span(&completion, 1)), result);
  }
}

}  // namespace nearkv
