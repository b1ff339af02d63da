// A daemon's session: whatever a client puts in its window, the daemon answers or cuts it off, and
// touches nothing but that window and the pool.
#include <array>
#include <cstdlib>
#include <cstring>
#include <semaphore>

#include "daemon/server/session_host.hpp"
#include "target.hpp"

namespace nearkv::test {
namespace {

/// A store and a window, with what a session needs; no sockets.
class SmallDaemon {
 public:
  SmallDaemon() : layout_(WindowLayout::make(64 << 10, 64 << 10)), memory_(layout_.window_bytes) {
    if (ObjectStore::create("cpu:?memory=8MiB&huge=off", {}, &store_) != Status::kOk) std::abort();
    if (store_->limit_namespaces(0, 100) != Status::kOk) std::abort();
    sessions_ = std::make_unique<SessionHost>(store_.get(), std::vector{tenant()}, 1);
    grants_ = sessions_->context().tenants->grants_of(self());
    view_ = WindowView::make(memory_, layout_);
  }

  /// One client's life. The input is how many submissions it sends, those, and what stands in its
  /// request area.
  void run(const std::uint8_t* data, std::size_t size) {
    std::memset(memory_.data(), 0, layout_.requests_at);
    Regions regions(view_.data, 0);
    ClientStatus status;
    Session session(sessions_->context(), grants_, &status, view_, &regions);
    const std::size_t wanted = size != 0 ? data[0] % 9 : 0;
    if (size != 0) {
      ++data;
      --size;
    }
    const std::size_t submissions = std::min(wanted, size / sizeof(nkv_daemon_submission));
    const std::size_t head = submissions * sizeof(nkv_daemon_submission);
    if (size != 0) {
      std::memcpy(view_.submissions.data(), data, head);
      std::memcpy(view_.requests.data(), data + head, std::min(size - head, view_.requests.size()));
    }
    view_.state->submission_tail = static_cast<std::uint32_t>(submissions);
    std::size_t steps = 0;
    while (session.step() == Session::Step::kWorked) {
      if (++steps > 100000) std::abort();
    }
    if (session.fault().empty() && !session.is_quiet()) std::abort();
    for (std::size_t i = 0; i < submissions; ++i) {
      if (session.fault().empty() && view_.completions[i].phase != 1) std::abort();
      if (view_.completions[i].status > NKV_STATUS_WINDOW_TOO_SMALL) std::abort();
    }
  }

 private:
  static TenantConfig tenant() {
    TenantConfig config;
    config.uids = {1};
    config.permissions = kMayRead | kMayWrite | kMayErase | kMayAdminister;
    return config;
  }
  static Peer self() {
    Peer peer;
    peer.user = 1;
    return peer;
  }

  WindowLayout layout_;
  std::vector<std::byte> memory_;
  std::unique_ptr<ObjectStore> store_;
  std::unique_ptr<SessionHost> sessions_;
  std::vector<Grant> grants_;
  WindowView view_;
};

template <typename Struct>
void put(std::vector<std::uint8_t>* to, const Struct& value) {
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(&value);
  to->insert(to->end(), bytes, bytes + sizeof(value));
}

nkv_daemon_submission submission_of(std::uint8_t operation) {
  nkv_daemon_submission submission{};
  submission.operation = operation;
  submission.result_at = 4096;
  submission.result_bytes = 2048;
  return submission;
}

}  // namespace

const char* const mutation_fault = "mutated submissions of a client";
const int mutation_runs = 600000;

/// Opens a namespace, then does one of everything with one object.
std::vector<std::vector<std::uint8_t>> corpus() {
  std::vector<std::vector<std::uint8_t>> inputs;
  constexpr std::uint32_t kNameAt = 0;
  constexpr std::uint32_t kJobAt = sizeof(nkv_daemon_namespace);
  constexpr std::uint32_t kKeysAt = kJobAt + 64;
  for (std::uint8_t operation = 0; operation <= NKV_DAEMON_OPERATION_TAKE_EVENTS; ++operation) {
    std::vector<std::uint8_t> input;
    nkv_daemon_submission open = submission_of(NKV_DAEMON_OPERATION_OPEN_NAMESPACE);
    open.request_at = kNameAt;
    open.request_bytes = sizeof(nkv_daemon_namespace);
    nkv_daemon_submission set = submission_of(NKV_DAEMON_OPERATION_SET);
    set.request_at = kJobAt;
    set.request_bytes = 56;
    set.items = 1;
    nkv_daemon_submission last = submission_of(operation);
    const bool is_job = operation <= NKV_DAEMON_OPERATION_SET_PARTS;
    last.request_at = is_job ? kJobAt : kKeysAt;
    last.request_bytes = is_job ? 56 : 16;
    if (operation == NKV_DAEMON_OPERATION_ADOPT_NAMESPACE) {
      last.request_bytes = sizeof(nkv_daemon_namespace_info);
    }
    last.items = 1;
    last.argument = 1000;
    input.push_back(3);
    put(&input, open);
    put(&input, set);
    put(&input, last);
    put(&input, nkv_daemon_namespace{});
    nkv_daemon_item item{};
    item.key_at = sizeof(item) + sizeof(nkv_daemon_segment);
    item.key_bytes = 8;
    item.segments = 1;
    put(&input, item);
    nkv_daemon_segment segment{};
    segment.bytes = 5000;
    put(&input, segment);
    put(&input, std::array<std::uint8_t, 16>{'a', 'b', 'c'});
    put(&input, nkv_daemon_key{8, 8});
    put(&input, std::array<std::uint8_t, 8>{'a', 'b', 'c'});
    inputs.push_back(input);
  }
  return inputs;
}

}  // namespace nearkv::test

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static nearkv::test::SmallDaemon daemon;
  daemon.run(data, size);
  return 0;
}
