// Peers that do not know the secret, or know it and mean ill.
#include <gtest/gtest.h>

#include <cstring>

#include "remote/address.hpp"
#include "remote/hello.hpp"
#include "remote/mirror.hpp"
#include "server_process.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint64_t kDataBytes = 1 << 20;

TcpSocket::Deadline soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(30); }

/// Knows where the server is, and how messages look.
class Stranger {
 public:
  explicit Stranger(const ServerProcess& server) {
    std::string reason;
    sockaddr_storage address{};
    EXPECT_EQ(parse_address(server.address(), &address, &reason), Status::kOk) << reason;
    EXPECT_EQ(TcpSocket::connect(address, soon(), &socket_, &reason), Status::kOk) << reason;
  }

  static nkv_remote_hello hello(std::uint32_t kind) {
    nkv_remote_hello hello{};
    hello.kind = kind;
    hello.data_bytes = kDataBytes;
    return hello;
  }

  void send(const nkv_remote_hello& hello, std::span<const std::byte> address = {}) {
    // Whoever is cut off meanwhile cannot send.
    (void)send_hello(&socket_, hello, soon(), address);
  }
  void send(std::span<const std::byte> bytes) { (void)socket_.send(bytes, soon()); }
  std::optional<nkv_remote_hello> heard() {
    nkv_remote_hello hello{};
    if (receive_hello(&socket_, &hello, soon()) != Status::kOk) return std::nullopt;
    return hello;
  }
  /// Without a word more.
  bool is_cut_off(TcpSocket::Deadline by = soon()) {
    std::byte byte{};
    return socket_.receive(std::span(&byte, 1), by) == Status::kNoDaemon;
  }
  void end_sending() const { socket_.end_sending(); }
  Status receive_rest(std::vector<std::byte>* address) {
    return receive_address(&socket_, address, soon());
  }

 private:
  TcpSocket socket_;
};

/// Speaks the protocol by hand, as far as it likes.
class HostilePeer final : public LinkReceiver, public Mirror::Owner {
 public:
  explicit HostilePeer(const ServerProcess& server) : stranger_(server) {
    std::string reason;
    EXPECT_EQ(make_context(server.transports(), &context_, &reason), Status::kOk) << reason;
    EXPECT_EQ(Link::make(context_, this, &link_, &reason), Status::kOk) << reason;
  }

  std::optional<Runs> place(std::span<const std::byte> header, std::size_t bytes) override {
    return mirror_->place(header, bytes);
  }
  void landed(std::span<const std::byte> header, const Runs& data) override {
    EXPECT_TRUE(mirror_->landed(header, data));
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

  /// Shakes hands as one should; the window is open then. What the server said.
  nkv_remote_hello prove(const std::string& secret = kSecret) {
    stranger_.send(Stranger::hello(NKV_REMOTE_KIND_HELLO));
    const auto challenge = stranger_.heard();
    EXPECT_TRUE(challenge);
    if (!challenge) return {};
    Nonce theirs{};
    std::ranges::copy(challenge->nonce, theirs.begin());
    EXPECT_EQ(Proofs::make(bytes_of(secret), Nonce{}, theirs, &proofs_), Status::kOk);
    nkv_remote_hello proof = Stranger::hello(NKV_REMOTE_KIND_PROOF);
    std::ranges::copy(proofs_.client, proof.proof);
    stranger_.send(proof, link_->address());
    const auto welcome = stranger_.heard();
    EXPECT_TRUE(welcome);
    if (!welcome || welcome->status != NKV_STATUS_OK) return welcome.value_or(nkv_remote_hello{});
    std::vector<std::byte> address;
    EXPECT_EQ(stranger_.receive_rest(&address), Status::kOk);
    data_.resize(kDataBytes);
    mirror_ = std::make_unique<Mirror>(proofs_.session, data_, NKV_REMOTE_KIND_COMPLETION, this);
    link_->connect(address);
    EXPECT_TRUE(link_->await_connection(soon())) << link_->fault();
    return *welcome;
  }

  void submit(const nkv_daemon_submission& submission, const Bytes& request) {
    sent_.push_back(std::make_unique<Bytes>(request));
    mirror_->send_entry(link_.get(), NKV_REMOTE_KIND_SUBMISSION,
                        std::as_bytes(std::span(&submission, 1)), *sent_.back());
  }

  [[nodiscard]] const std::vector<nkv_daemon_completion>& completions() const {
    return completions_;
  }
  [[nodiscard]] const Proofs& proofs() const { return proofs_; }
  [[nodiscard]] Link& link() { return *link_; }
  [[nodiscard]] Stranger& stranger() { return stranger_; }

 private:
  Stranger stranger_;
  UcxContext context_;
  Proofs proofs_;
  Bytes data_;
  Bytes scrap_;
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
  EXPECT_EQ(peer.prove("").status, NKV_STATUS_DENIED);
  EXPECT_TRUE(peer.stranger().is_cut_off());
}

TEST_F(RemoteHostileTest, WhoHasProvedNothingGetsNothing) {
  const auto attempts = {NKV_REMOTE_KIND_PROOF, NKV_REMOTE_KIND_WELCOME, NKV_REMOTE_KIND_DATA,
                         NKV_REMOTE_KIND_SUBMISSION, NKV_REMOTE_KIND_COMPLETION};
  const Bytes address(100);
  for (const auto kind : attempts) {
    Stranger first(server_);
    first.send(Stranger::hello(kind), address);
    EXPECT_TRUE(first.is_cut_off()) << kind;
    if (kind == NKV_REMOTE_KIND_PROOF) continue;
    Stranger second(server_);
    second.send(Stranger::hello(NKV_REMOTE_KIND_HELLO));
    EXPECT_TRUE(second.heard());
    second.send(Stranger::hello(kind), address);
    EXPECT_TRUE(second.is_cut_off()) << kind;
  }
}

TEST_F(RemoteHostileTest, AProofNeedsAnAddressOfSomeSize) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1} << 20}) {
    Stranger stranger(server_);
    stranger.send(Stranger::hello(NKV_REMOTE_KIND_HELLO));
    EXPECT_TRUE(stranger.heard());
    stranger.send(Stranger::hello(NKV_REMOTE_KIND_PROOF), Bytes(bytes));
    stranger.end_sending();
    EXPECT_TRUE(stranger.is_cut_off()) << bytes;
  }
}

TEST_F(RemoteHostileTest, WhoSaysNothingOrHalfOfItIsNotWaitedFor) {
  const Bytes some(sizeof(nkv_remote_hello) - 1);
  Stranger silent(server_);
  Stranger half(server_);
  half.send(std::span(some));
  Stranger half_way(server_);
  half_way.send(Stranger::hello(NKV_REMOTE_KIND_HELLO));
  EXPECT_TRUE(half_way.heard());
  Stranger endless(server_);
  endless.send(Stranger::hello(NKV_REMOTE_KIND_HELLO));
  EXPECT_TRUE(endless.heard());
  endless.send(Stranger::hello(NKV_REMOTE_KIND_PROOF));
  endless.send(std::span(some));
  for (Stranger* stranger : {&silent, &half, &half_way, &endless}) {
    EXPECT_TRUE(stranger->is_cut_off());
  }
}

TEST_F(RemoteHostileTest, BytesOfAnyKindCutOnlyTheirSenderOff) {
  Random random(test_seed());
  for (std::size_t attempt = 0; attempt < 200; ++attempt) {
    Stranger stranger(server_);
    const bool is_greeted = attempt % 2 == 0;
    if (is_greeted) {
      stranger.send(Stranger::hello(NKV_REMOTE_KIND_HELLO));
      EXPECT_TRUE(stranger.heard());
    }
    std::vector<std::byte> bytes(random() % 3000);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    // Sometimes with a message's first words.
    const std::uint32_t words[] = {NKV_REMOTE_MAGIC, static_cast<std::uint32_t>(random() % 9),
                                   static_cast<std::uint32_t>(random() % 3)};
    if (attempt % 5 != 0 && bytes.size() >= sizeof(words)) {
      std::memcpy(bytes.data(), words, sizeof(words));
    }
    stranger.send(std::span<const std::byte>(bytes));
    stranger.end_sending();
    // What it hears, if anything, is a nonce or a refusal.
    const auto answer = stranger.heard();
    if (answer && answer->kind == NKV_REMOTE_KIND_WELCOME) {
      EXPECT_NE(answer->status, NKV_STATUS_OK);
    }
  }
}

TEST_F(RemoteHostileTest, MessagesOfAnyBytesCutOnlyTheirSenderOff) {
  Random random(test_seed());
  for (std::size_t attempt = 0; attempt < 60; ++attempt) {
    HostilePeer peer(server_);
    peer.prove();
    std::vector<std::byte> header(random() % 1500);
    for (std::byte& byte : header) byte = static_cast<std::byte>(random());
    // Sometimes as large as messages are, and with their first words.
    if (attempt % 3 == 0) header.resize(sizeof(nkv_remote_message));
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

TEST_F(RemoteHostileTest, AnotherVersionIsToldSo) {
  Stranger stranger(server_);
  nkv_remote_hello hello = Stranger::hello(NKV_REMOTE_KIND_HELLO);
  hello.magic = NKV_REMOTE_MAGIC;
  hello.version = NKV_REMOTE_VERSION + 1;
  stranger.send(std::as_bytes(std::span(&hello, 1)));
  const auto answer = stranger.heard();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, NKV_STATUS_BAD_ABI);
  EXPECT_TRUE(stranger.is_cut_off());
}

TEST_F(RemoteHostileTest, ManyStrangersDoNotKeepOthersOut) {
  std::vector<Stranger> strangers;
  for (int i = 0; i < 30; ++i) strangers.emplace_back(server_);
  const auto by = soon();
  for (Stranger& stranger : strangers) EXPECT_TRUE(stranger.is_cut_off(by));
}

}  // namespace
}  // namespace nearkv::test
