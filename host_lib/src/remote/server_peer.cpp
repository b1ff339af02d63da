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
constexpr std::chrono::milliseconds kNap{200};  // While a peer that is not welcome yet is awaited.

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
                       const UcxContext& context, ucp_conn_request_h request,
                       std::function<void()> finished)
    : context_(session),
      terms_(terms),
      ucx_(context),
      finished_call_(std::move(finished)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  thread_ = std::thread([this, request] {
    (void)at_edge([&] {
      serve(request);
      return Status::kOk;
    });
    finished_ = true;
    finished_call_();
  });
}

ServerPeer::~ServerPeer() {
  stop_ = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof(one));
  thread_.join();
}

void ServerPeer::serve(ucp_conn_request_h request) {
  std::string reason;
  if (Link::accept(ucx_, request, this, &link_, &reason) != Status::kOk) return;
  run();
  // First nobody writes to the window any more, then it goes.
  link_.reset();
  served_.reset();
  if (!client_) return;
  context_.clients->remove(client_);
  terms_->grants.front().counters->clients.fetch_sub(1);
}

void ServerPeer::run() {
  Spinner spinner;
  while (!stop_ && link_->fault().empty()) {
    bool worked = link_->progress();
    if (served_) {
      const Session::Step step = served_->session.step();
      (void)served_->session.take_wake();
      if (step == Session::Step::kBroken) {
        context_.counters->protocol_errors.fetch_add(1);
        return;
      }
      worked = worked || step == Session::Step::kWorked;
      answer();
    } else if (Clock::now() - begin_ > kHelloTime) {
      return;
    }
    if (!worked && !spinner.until([&] { return link_->progress(); })) sleep();
  }
}

void ServerPeer::sleep() {
  if (served_ && served_->session.has_work()) return;
  if (!link_->fault().empty() || !link_->may_sleep()) return;
  std::array<pollfd, 2> ready = {{{link_->event_fd(), POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
  ::poll(ready.data(), ready.size(), served_ ? -1 : static_cast<int>(kNap.count()));
}

std::optional<Runs> ServerPeer::place(std::span<const std::byte> header, std::size_t bytes) {
  if (served_) return served_->mirror.place(header, bytes);
  if (header.size() != sizeof(nkv_remote_hello) || bytes != 0) return std::nullopt;
  return Runs();
}

void ServerPeer::landed(std::span<const std::byte> header, const Runs& data) {
  if (!served_) {
    greet(header);
  } else if (!served_->mirror.landed(header, data)) {
    link_->break_off("a checksum is wrong");
  }
}

void ServerPeer::greet(std::span<const std::byte> header) {
  nkv_remote_hello hello{};
  std::memcpy(&hello, header.data(), sizeof(hello));
  nkv_remote_hello answer{};
  const std::uint32_t expected = client_nonce_ ? NKV_REMOTE_KIND_PROOF : NKV_REMOTE_KIND_HELLO;
  if (refused_ || hello.magic != NKV_REMOTE_MAGIC || hello.kind != expected) {
    link_->break_off("no hello of this protocol");
    return;
  }
  if (hello.version != NKV_REMOTE_VERSION) {
    refuse(Status::kBadAbi, "the server is of another version; use the same release", &answer);
  } else if (!client_nonce_) {
    if (make_nonce(&nonce_) != Status::kOk) {
      link_->break_off("no random numbers");
      return;
    }
    client_nonce_.emplace();
    std::ranges::copy(hello.nonce, client_nonce_->begin());
    data_bytes_ = std::min(hello.data_bytes, terms_->window_bytes);
    answer.kind = NKV_REMOTE_KIND_CHALLENGE;
    std::ranges::copy(nonce_, answer.nonce);
    send_hello(answer);
    return;
  } else if (welcome(hello, &answer) == Status::kOk) {
    answer.kind = NKV_REMOTE_KIND_WELCOME;
    send_hello(answer);
    return;
  }
  answer.kind = NKV_REMOTE_KIND_WELCOME;
  context_.counters->refused.fetch_add(1);
  send_hello(answer);
  // It stays a moment, so that the peer hears why, and is heard no more.
  refused_ = true;
}

Status ServerPeer::welcome(const nkv_remote_hello& proof, nkv_remote_hello* answer) {
  Proofs proofs;
  Status status = Proofs::make(terms_->secret, *client_nonce_, nonce_, &proofs);
  if (status != Status::kOk || !same_proof(proof.proof, proofs.client)) {
    refuse(Status::kDenied, "the secret is another one than the server's", answer);
    return Status::kDenied;
  }
  // Only now, so that nobody gets to know anything by trying.
  std::ranges::copy(proofs.server, answer->proof);
  const WindowLayout layout = WindowLayout::make(kRequestAreaBytes, data_bytes_);
  FileDescriptor fd;
  SharedMemory window;
  status = SharedMemory::create(layout.window_bytes, &fd, &window);
  if (status != Status::kOk) {
    refuse(status, "the server has no memory left for another peer", answer);
    return status;
  }
  client_ = std::make_shared<ClientStatus>();
  client_->tenant = terms_->grants.front().tenant;
  client_->connected_s = now_s();
  served_ = std::make_unique<Served>(context_, *terms_, layout, std::move(window), fd.get(),
                                     client_.get(), proofs.session, this);
  context_.clients->add(client_);
  terms_->grants.front().counters->clients.fetch_add(1);
  context_.counters->connections.fetch_add(1);
  answer->request_area_bytes = layout.request_area_bytes;
  answer->data_bytes = layout.data_bytes;
  welcome_ = true;
  return Status::kOk;
}

void ServerPeer::send_hello(const nkv_remote_hello& hello) {
  nkv_remote_hello sent = hello;
  sent.magic = NKV_REMOTE_MAGIC;
  sent.version = NKV_REMOTE_VERSION;
  const auto bytes = std::as_bytes(std::span(&sent, 1));
  link_->send({bytes.begin(), bytes.end()}, {});
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
