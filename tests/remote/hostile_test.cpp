// Peers that do not know the secret, or know it and mean ill.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

#include "remote/address.hpp"
#include "remote/mirror.hpp"
#include "server_process.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint64_t kDataBytes = 1 << 20;

/// Speaks the protocol by hand, as far as it likes.
class HostilePeer final : public LinkReceiver, public Mirror::Owner {
 public:
  explicit HostilePeer(const ServerProcess& server) {
    std::string reason;
    sockaddr_storage address{};
    EXPECT_EQ(make_context(server.transports(), &context_, &reason), Status::kOk) << reason;
    EXPECT_EQ(parse_address(server.address(), &address, &reason), Status::kOk) << reason;
    EXPECT_EQ(Link::connect(context_, address, this, &link_, &reason), Status::kOk) << reason;
  }

  std::optional<Runs> place(std::span<const std::byte> header, std::size_t bytes) override {
    if (mirror_) return mirror_->place(header, bytes);
    scrap_.resize(bytes);
    return Runs{std::span(scrap_)};
  }
  void landed(std::span<const std::byte> header, const Runs& data) override {
    if (mirror_) {
      EXPECT_TRUE(mirror_->landed(header, data));
      return;
    }
    nkv_remote_hello hello{};
    std::memcpy(&hello, header.data(), std::min(header.size(), sizeof(hello)));
    heard_.push_back(hello);
  }
  std::optional<std::span<std::byte>> place_of(const Entry&, std::size_t bytes) override {
    scrap_.resize(bytes);
    return std::span(scrap_);
  }
  void take(const Entry& entry) override {
    completions_.emplace_back();
    std::memcpy(&completions_.back(), entry.data(), sizeof(completions_.back()));
  }

  void send(std::vector<std::byte> header, const Bytes& data = {}) {
    sent_.push_back(std::make_unique<Bytes>(data));
    ConstRuns runs;
    if (!data.empty()) runs.emplace_back(*sent_.back());
    link_->send(std::move(header), runs);
  }
  template <typename Struct>
  void send(const Struct& header) {
    const auto bytes = std::as_bytes(std::span(&header, 1));
    send(std::vector<std::byte>(bytes.begin(), bytes.end()));
  }

  /// Until `done()`; false if it takes too long.
  template <typename Done>
  bool until(Done done) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!done()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      if (!link_->progress()) std::this_thread::yield();
    }
    return true;
  }
  bool is_cut_off() {
    return until([&] { return !link_->fault().empty(); });
  }

  static nkv_remote_hello hello(std::uint32_t kind) {
    nkv_remote_hello hello{};
    hello.magic = NKV_REMOTE_MAGIC;
    hello.version = NKV_REMOTE_VERSION;
    hello.kind = kind;
    hello.data_bytes = kDataBytes;
    return hello;
  }

  /// Shakes hands as one should; the window is open then.
  void prove(const std::string& secret = kSecret) {
    send(hello(NKV_REMOTE_KIND_HELLO));
    ASSERT_TRUE(until([&] { return heard_.size() == 1; }));
    Nonce theirs{};
    std::ranges::copy(heard_[0].nonce, theirs.begin());
    ASSERT_EQ(Proofs::make(bytes_of(secret), Nonce{}, theirs, &proofs_), Status::kOk);
    nkv_remote_hello proof = hello(NKV_REMOTE_KIND_PROOF);
    std::ranges::copy(proofs_.client, proof.proof);
    send(proof);
    ASSERT_TRUE(until([&] { return heard_.size() == 2; }));
    if (heard_[1].status != NKV_STATUS_OK) return;
    data_.resize(kDataBytes);
    mirror_ = std::make_unique<Mirror>(proofs_.session, data_, NKV_REMOTE_KIND_COMPLETION, this);
  }

  void submit(const nkv_daemon_submission& submission, const Bytes& request) {
    sent_.push_back(std::make_unique<Bytes>(request));
    mirror_->send_entry(link_.get(), NKV_REMOTE_KIND_SUBMISSION,
                        std::as_bytes(std::span(&submission, 1)), *sent_.back());
  }

  [[nodiscard]] const std::vector<nkv_remote_hello>& heard() const { return heard_; }
  [[nodiscard]] const std::vector<nkv_daemon_completion>& completions() const {
    return completions_;
  }
  [[nodiscard]] const Proofs& proofs() const { return proofs_; }
  [[nodiscard]] Mirror& mirror() { return *mirror_; }
  [[nodiscard]] Link& link() { return *link_; }

 private:
  UcxContext context_;
  Proofs proofs_;
  Bytes data_;
  Bytes scrap_;
  std::vector<nkv_remote_hello> heard_;
  std::vector<nkv_daemon_completion> completions_;
  std::vector<std::unique_ptr<Bytes>> sent_;
  std::unique_ptr<Mirror> mirror_;
  std::unique_ptr<Link> link_;
};

class RemoteHostileTest : public testing::Test {
 protected:
  void TearDown() override {
    // Whatever was tried, others are served as before.
    ASSERT_TRUE(server_.is_alive());
    std::unique_ptr<ObjectStore> store;
    ASSERT_TRUE(
        eventually([&] { return connect_remote(server_.options(), &store) == Status::kOk; }));
    const std::uint32_t space = open_space(store.get());
    ASSERT_EQ(set(store.get(), space, key_of(1), contents(1, 500'000)), Status::kOk);
    Bytes found;
    ASSERT_EQ(get(store.get(), space, key_of(1), &found), Status::kOk);
    EXPECT_EQ(found, contents(1, 500'000));
    store.reset();
    EXPECT_EQ(server_.finish(), 0);
  }

  ServerProcess server_{"tcp"};
};

TEST_F(RemoteHostileTest, AnotherSecretIsDenied) {
  std::unique_ptr<ObjectStore> store;
  std::string reason;
  EXPECT_EQ(connect_remote(server_.options("another secret of sixteen bytes"), &store, &reason),
            Status::kDenied);
  EXPECT_NE(reason.find("secret"), std::string::npos) << reason;
  HostilePeer peer(server_);
  peer.prove("");
  ASSERT_EQ(peer.heard().size(), 2U);
  EXPECT_EQ(peer.heard()[1].status, NKV_STATUS_DENIED);
  // Not even the right proof helps afterwards.
  peer.send(HostilePeer::hello(NKV_REMOTE_KIND_PROOF));
  EXPECT_TRUE(peer.is_cut_off());
}

TEST_F(RemoteHostileTest, WhoHasProvedNothingGetsNothing) {
  const auto attempts = {NKV_REMOTE_KIND_PROOF, NKV_REMOTE_KIND_WELCOME, NKV_REMOTE_KIND_DATA,
                         NKV_REMOTE_KIND_SUBMISSION, NKV_REMOTE_KIND_COMPLETION};
  for (const auto kind : attempts) {
    HostilePeer peer(server_);
    peer.send(HostilePeer::hello(kind));
    EXPECT_TRUE(peer.is_cut_off()) << kind;
    EXPECT_TRUE(peer.heard().empty());
  }
  HostilePeer silent(server_);
  EXPECT_TRUE(silent.is_cut_off());
}

TEST_F(RemoteHostileTest, MessagesOfAnyBytesCutOnlyTheirSenderOff) {
  Random random(test_seed());
  for (std::size_t attempt = 0; attempt < 60; ++attempt) {
    HostilePeer peer(server_);
    if (attempt % 2 == 0) peer.prove();
    std::vector<std::byte> header(random() % 1500);
    for (std::byte& byte : header) byte = static_cast<std::byte>(random());
    // Sometimes as large as hellos and messages are, and with their first words.
    if (attempt % 3 == 0) header.resize(attempt % 2 == 0 ? 64 : sizeof(nkv_remote_hello));
    const std::uint32_t words[] = {NKV_REMOTE_MAGIC, static_cast<std::uint32_t>(random() % 9)};
    if (attempt % 5 != 0 && header.size() >= sizeof(words)) {
      std::memcpy(header.data(), words, sizeof(words));
    }
    peer.send(header, Bytes(random() % 4 == 0 ? random() % 300'000 : 0));
    EXPECT_TRUE(peer.is_cut_off()) << attempt;
  }
}

TEST_F(RemoteHostileTest, MessagesThatAreWrongInOnePlaceAreNotBelieved) {
  struct Case {
    const char* what;
    void (*spoil)(nkv_remote_message*, nkv_daemon_segment*);
  };
  const Case cases[] = {
      {"session", [](auto* message, auto*) { message->session[31] ^= 1; }},
      {"checksum", [](auto* message, auto*) { message->checksum ^= 1; }},
      {"number, far ahead",
       [](auto* message, auto*) { message->number = NKV_REMOTE_MAX_UNLANDED; }},
      {"runs", [](auto* message, auto*) { message->runs = 2; }},
      {"kind", [](auto* message, auto*) { message->kind = NKV_REMOTE_KIND_COMPLETION; }},
      {"offset", [](auto*, auto* segment) { segment->offset = kDataBytes; }},
      {"offset, wrapping", [](auto*, auto* segment) { segment->offset = ~0ULL - 10; }},
      {"bytes", [](auto*, auto* segment) { segment->bytes = 99; }},
  };
  for (const Case& tried : cases) {
    HostilePeer peer(server_);
    peer.prove();
    nkv_remote_message message{};
    message.magic = NKV_REMOTE_MAGIC;
    message.kind = NKV_REMOTE_KIND_DATA;
    message.runs = 1;
    std::ranges::copy(peer.proofs().session, message.session);
    nkv_daemon_segment segment{};
    segment.bytes = 100;
    tried.spoil(&message, &segment);
    std::vector<std::byte> header(sizeof(message) + sizeof(segment));
    std::memcpy(header.data(), &message, sizeof(message));
    std::memcpy(header.data() + sizeof(message), &segment, sizeof(segment));
    peer.send(header, Bytes(100));
    EXPECT_TRUE(peer.is_cut_off()) << tried.what;
  }
}

TEST_F(RemoteHostileTest, RequestsOfAnyBytesAreAnsweredOrEndTheConnection) {
  Random random(test_seed());
  std::size_t answered = 0;
  for (std::size_t attempt = 0; attempt < 30; ++attempt) {
    HostilePeer peer(server_);
    peer.prove();
    for (std::uint64_t tag = 0; tag < 40 && peer.link().fault().empty(); ++tag) {
      nkv_daemon_submission submission{};
      auto bytes = std::as_writable_bytes(std::span(&submission, 1));
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
      submission.operation = static_cast<std::uint8_t>(random() % 34);
      submission.number %= 3;
      submission.tag = tag;
      submission.items %= 20;
      submission.request_at = static_cast<std::uint32_t>(random() % 1000 * 8);
      submission.result_at = static_cast<std::uint32_t>(random() % 1000 * 8);
      submission.result_bytes = static_cast<std::uint32_t>(random() % 4096);
      submission.parent_bytes %= 64;
      submission.parent_at %= 512;
      Bytes request(random() % 2048);
      for (std::byte& byte : request) byte = static_cast<std::byte>(random() % 40);
      submission.request_bytes = static_cast<std::uint32_t>(request.size());
      peer.submit(submission, request);
      ASSERT_TRUE(peer.until(
          [&] { return !peer.link().fault().empty() || peer.completions().size() == tag + 1; }));
    }
    answered += peer.completions().size();
  }
  EXPECT_GT(answered, 500U);
}

TEST_F(RemoteHostileTest, RequestsOutsideOfTheWindowAndTooManyOfThemEndTheConnection) {
  nkv_daemon_submission outside{};
  outside.operation = NKV_DAEMON_OPERATION_STATS;
  outside.result_at = (4 << 20) - 8;
  outside.result_bytes = 16;
  HostilePeer peer(server_);
  peer.prove();
  peer.submit(outside, {});
  EXPECT_TRUE(peer.is_cut_off());
  HostilePeer repeater(server_);
  repeater.prove();
  nkv_daemon_submission job{};
  job.operation = NKV_DAEMON_OPERATION_GET;
  for (std::uint64_t i = 0; i < 3; ++i) repeater.submit(job, Bytes(2 << 20));
  EXPECT_TRUE(repeater.until(
      [&] { return !repeater.link().fault().empty() || repeater.completions().size() == 3; }));
}

TEST_F(RemoteHostileTest, ManyStrangersDoNotKeepOthersOut) {
  std::vector<std::unique_ptr<HostilePeer>> strangers;
  for (int i = 0; i < 30; ++i) strangers.push_back(std::make_unique<HostilePeer>(server_));
  EXPECT_TRUE(eventually([&] {
    std::size_t gone = 0;
    for (const auto& stranger : strangers) {
      (void)stranger->link().progress();
      gone += stranger->link().fault().empty() ? 0 : 1;
    }
    return gone == strangers.size();
  }));
}

}  // namespace
}  // namespace nearkv::test
