// Clients that break the protocol, on purpose or not: the daemon goes on for the others.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <thread>

#include "hostile_client.hpp"
#include "support/fault_report.hpp"
#include "support/objects.hpp"
#include "support/seed.hpp"

namespace nearkv::test {
namespace {

class HostileTest : public testing::Test {
 protected:
  void SetUp() override {
    config_ = small_config(folder_);
    // Administrators may do harm; nobody else may.
    config_.tenants = {own_tenant(1, kMayRead | kMayWrite | kMayErase)};
    server_ = start_server(config_);
    store_ = connect_to(config_.socket.path);
    ASSERT_EQ(store_->open_namespace(namespace_of(1, "honest"), &space_), Status::kOk);
    ASSERT_EQ(set(store_.get(), space_, key_of(1), contents(1, 10000)), Status::kOk);
  }

  void TearDown() override {
    Bytes found;
    EXPECT_EQ(get(store_.get(), space_, key_of(1), &found), Status::kOk);
    EXPECT_EQ(found, contents(1, 10000));
    EXPECT_EQ(set(store_.get(), space_, key_of(2), contents(2, 10000)), Status::kOk);
  }

  /// A socket that says nothing by itself.
  PacketSocket raw() {
    PacketSocket socket;
    std::string reason;
    EXPECT_EQ(PacketSocket::connect(config_.socket.path, &socket, &reason), Status::kOk);
    return socket;
  }

  /// What the daemon answers to a first message.
  Status answer_to(std::span<const std::byte> message, std::span<const int> fds = {}) {
    PacketSocket socket = raw();
    EXPECT_EQ(socket.send(message, fds), Status::kOk);
    nkv_daemon_welcome welcome{};
    std::vector<FileDescriptor> received;
    const Status status =
        socket.receive(writable_message(&welcome), &received, std::chrono::seconds(20));
    return status == Status::kOk ? static_cast<Status>(welcome.status) : status;
  }

  TemporaryFolder folder_;
  ServerConfig config_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<ObjectStore> store_;
  std::uint32_t space_ = 0;
};

nkv_daemon_hello hello() {
  nkv_daemon_hello message{};
  message.magic = NKV_DAEMON_MAGIC;
  message.message = NKV_DAEMON_MESSAGE_HELLO;
  message.version = NKV_DAEMON_VERSION;
  return message;
}

TEST_F(HostileTest, WrongHellosAreRefused) {
  const nkv_daemon_hello right = hello();
  EXPECT_EQ(answer_to(bytes_of_message(right)), Status::kOk);
  EXPECT_EQ(answer_to(bytes_of_message(right).first(63)), Status::kBadArgument) << "truncated";
  EXPECT_EQ(answer_to(bytes_of_message(right).first(1)), Status::kBadArgument) << "truncated";
  const Bytes large(100000);
  EXPECT_EQ(answer_to(large), Status::kBadArgument) << "too long";
  nkv_daemon_hello wrong = right;
  wrong.version = 77;
  EXPECT_EQ(answer_to(bytes_of_message(wrong)), Status::kBadAbi);
  wrong = right;
  wrong.magic = 1;
  EXPECT_EQ(answer_to(bytes_of_message(wrong)), Status::kBadArgument);
  wrong = right;
  wrong.data_bytes = ~std::uint64_t{0};
  EXPECT_EQ(answer_to(bytes_of_message(wrong)), Status::kOk) << "it gets what is configured";
  const int fds[] = {STDIN_FILENO, STDIN_FILENO, STDIN_FILENO, STDIN_FILENO};
  EXPECT_EQ(answer_to(bytes_of_message(right), fds), Status::kOk) << "descriptors nobody asked for";
}

TEST_F(HostileTest, WhoSaysNothingKeepsNobodyOut) {
  std::vector<PacketSocket> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(raw());
  EXPECT_NE(connect_to(config_.socket.path, 1 << 20), nullptr);
  EXPECT_EQ(answer_to(Bytes(1)), Status::kBadArgument);
}

TEST_F(HostileTest, EveryPlaceOutsideTheWindowIsRefused) {
  HostileClient client(config_.socket.path);
  const std::uint32_t number = client.open_namespace();
  const nkv_daemon_submission right = client.one_object(NKV_DAEMON_OPERATION_SET, number, 1000);
  auto completion = client.ask(right);
  ASSERT_TRUE(completion);
  EXPECT_EQ(completion->status, NKV_STATUS_OK);
  const auto refuses = [&](auto change, const char* what) {
    nkv_daemon_submission wrong = client.one_object(NKV_DAEMON_OPERATION_SET, number, 1000);
    change(&wrong, client.window().requests.data());
    const auto answer = client.ask(wrong);
    ASSERT_TRUE(answer) << what << ": cut off";
    EXPECT_EQ(answer->status, NKV_STATUS_BAD_ARGUMENT) << what;
  };
  const auto item = [](auto change) {
    return [change](nkv_daemon_submission*, std::byte* request) {
      nkv_daemon_item wire{};
      std::memcpy(&wire, request, sizeof(wire));
      change(&wire);
      std::memcpy(request, &wire, sizeof(wire));
    };
  };
  const auto segment = [](auto change) {
    return [change](nkv_daemon_submission*, std::byte* request) {
      nkv_daemon_segment wire{};
      std::memcpy(&wire, request + sizeof(nkv_daemon_item), sizeof(wire));
      change(&wire);
      std::memcpy(request + sizeof(nkv_daemon_item), &wire, sizeof(wire));
    };
  };
  const auto area = static_cast<std::uint32_t>(client.window().requests.size());
  refuses([&](auto* s, auto*) { s->request_at = area; }, "request at the end");
  refuses([&](auto* s, auto*) { s->request_at = 0xFFFFFFF8; }, "request beyond");
  refuses([&](auto* s, auto*) { s->request_at = 4; }, "request off its alignment");
  refuses([&](auto* s, auto*) { s->result_at = area - 4; }, "result across the end");
  refuses([&](auto* s, auto*) { s->result_at = 0xFFFFFFF8; }, "result beyond");
  refuses([&](auto* s, auto*) { s->result_bytes = 4; }, "no room for the result");
  refuses([&](auto* s, auto*) { s->items = 0xFFFFFFFF; }, "giant count");
  refuses([&](auto* s, auto*) { s->items = 3; }, "items beyond the request");
  refuses([&](auto* s, auto*) { s->parent_at = 0xFFFFFFFF; }, "parent beyond");
  refuses([&](auto* s, auto*) { s->parent_bytes = 0xFFFFFFFF; }, "giant parent");
  refuses(item([](auto* i) { i->key_at = 0xFFFFFFFF; }), "key beyond");
  refuses(item([](auto* i) { i->key_bytes = 0xFFFFFFFF; }), "giant key");
  refuses(item([](auto* i) { i->first_segment = 1; }), "segment beyond");
  refuses(item([](auto* i) { i->segments = 0xFFFFFFFF; }), "giant number of segments");
  refuses(segment([](auto* s) { s->region = 1; }), "a region that is not registered");
  refuses(segment([](auto* s) { s->region = 0xFFFFFFFF; }), "no region");
  refuses(segment([](auto* s) { s->offset = 1 << 20; }), "segment at the end");
  refuses(segment([](auto* s) { s->offset = ~std::uint64_t{0}; }), "segment beyond");
  refuses(segment([](auto* s) { s->bytes = (1 << 20) + 1; }), "segment across the end");
  refuses([&](auto* s, auto*) { s->number = 5555; }, "a namespace that nobody opened");
}

TEST_F(HostileTest, AnotherClientsNamespaceIsNoneOfIts) {
  HostileClient client(config_.socket.path);
  nkv_daemon_submission read = client.one_object(NKV_DAEMON_OPERATION_GET, space_, 1000);
  const auto completion = client.ask(read);
  ASSERT_TRUE(completion);
  EXPECT_EQ(completion->status, NKV_STATUS_BAD_ARGUMENT)
      << "numbers can be guessed; without the salt that opens them they are worth nothing";
}

TEST_F(HostileTest, MoreInFlightThanTheRingHoldsIsCutOff) {
  HostileClient client(config_.socket.path);
  client.window().state->submission_tail = NKV_DAEMON_RING_ENTRIES + 1;
  (void)client.connection().unregister_region(5);  // Wakes the daemon, should it sleep.
  EXPECT_TRUE(eventually([&] { return !client.connection().is_alive(); }));
}

TEST_F(HostileTest, UnreadCompletionsAreNotOverrun) {
  HostileClient client(config_.socket.path);
  nkv_daemon_submission stats{};
  stats.operation = NKV_DAEMON_OPERATION_UNPIN;
  for (std::uint32_t i = 0; i <= NKV_DAEMON_RING_ENTRIES; ++i) client.connection().submit(stats);
  EXPECT_TRUE(eventually([&] { return !client.connection().is_alive(); }));
}

TEST_F(HostileTest, RequestsThatOverlapToCostMemoryAreCutOff) {
  HostileClient client(config_.socket.path);
  const std::uint32_t number = client.open_namespace();
  nkv_daemon_submission job = client.one_object(NKV_DAEMON_OPERATION_SET, number, 1000);
  job.request_bytes = static_cast<std::uint32_t>(client.window().requests.size());
  for (int i = 0; i < 100; ++i) client.connection().submit(job);
  EXPECT_TRUE(eventually([&] { return !client.connection().is_alive(); }));
}

TEST_F(HostileTest, NonsenseOnTheSocketIsCutOff) {
  HostileClient client(config_.socket.path);
  PacketSocket socket = raw();
  ASSERT_EQ(socket.send(bytes_of_message(hello())), Status::kOk);
  nkv_daemon_welcome welcome{};
  std::vector<FileDescriptor> fds;
  ASSERT_EQ(socket.receive(writable_message(&welcome), &fds, std::chrono::seconds(20)),
            Status::kOk);
  ASSERT_EQ(socket.send(Bytes(7)), Status::kOk);
  EXPECT_EQ(socket.receive(writable_message(&welcome), &fds, std::chrono::seconds(20)),
            Status::kNoDaemon);
}

TEST_F(HostileTest, RandomMessagesOnTheSocketDoNoHarm) {
  constexpr std::uint64_t kMessages = 3000;
  std::uint64_t survived = 0;
  PacketSocket socket;
  for (std::uint64_t message = 0; message < kMessages; ++message) {
    SCOPED_TRACE(case_name(message));
    Random random = case_random(message);
    if (!socket || pick(random, 0, 3) == 0) {
      socket = raw();
      if (pick(random, 0, 2) != 0) (void)socket.send(bytes_of_message(hello()));
    }
    // A hello or a region, mostly changed, of any length, with any descriptors.
    nkv_daemon_region region{};
    region.magic = NKV_DAEMON_MAGIC;
    region.message = pick(random, 0, 5);
    region.region = pick(random, 0, 3);
    region.bytes = std::uint64_t{1} << pick(random, 0, 63);
    const nkv_daemon_hello first = hello();
    const auto valid = pick(random, 0, 1) == 0 ? bytes_of_message(region) : bytes_of_message(first);
    Bytes bytes(valid.begin(), valid.end());
    for (std::uint32_t change = pick(random, 0, 3); change != 0; --change) {
      bytes[pick(random, 0, static_cast<std::uint32_t>(bytes.size()) - 1)] =
          static_cast<std::byte>(random());
    }
    if (pick(random, 0, 4) == 0) bytes.resize(pick(random, 1, 5000));
    const FileDescriptor file(::memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (pick(random, 0, 1) == 0) (void)::ftruncate(file.get(), 1 << pick(random, 0, 24));
    if (pick(random, 0, 1) == 0) (void)::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK);
    const int fds[] = {file.get(), STDIN_FILENO, socket.fd()};
    if (socket.send(bytes, std::span(fds).first(pick(random, 0, 3))) != Status::kOk) {
      socket = PacketSocket();
    }
    Bytes found;
    const Status status = get(store_.get(), space_, key_of(1), &found);
    if (status == Status::kOk && found == contents(1, 10000)) ++survived;
  }
  EXPECT_EQ(survived, kMessages);
  report_fault("hostile socket messages", kMessages, survived, kMessages - survived);
}

TEST_F(HostileTest, WhoClosesItsEndsOfThePipesIsOnlyItsOwnTrouble) {
  PacketSocket socket = raw();
  ASSERT_EQ(socket.send(bytes_of_message(hello())), Status::kOk);
  nkv_daemon_welcome welcome{};
  {
    std::vector<FileDescriptor> fds;
    ASSERT_EQ(socket.receive(writable_message(&welcome), &fds, std::chrono::seconds(20)),
              Status::kOk);
  }
  std::vector<FileDescriptor> none;
  EXPECT_EQ(socket.receive(writable_message(&welcome), &none, std::chrono::seconds(20)),
            Status::kNoDaemon)
      << "a daemon that waits at a closed pipe would spin for ever";
}

TEST_F(HostileTest, RandomBytesInTheRingsDoNoHarm) {
  for (std::uint64_t round = 0; round < 60; ++round) {
    SCOPED_TRACE(case_name(round));
    Random random = case_random(round);
    HostileClient client(config_.socket.path);
    const std::uint32_t number = client.open_namespace();
    for (int step = 0; step < 200 && client.connection().is_alive(); ++step) {
      nkv_daemon_submission submission = client.one_object(
          static_cast<std::uint8_t>(pick(random, 0, 40)), number, pick(random, 0, 100000));
      auto* const bytes = reinterpret_cast<std::uint8_t*>(&submission);
      for (std::uint32_t change = pick(random, 0, 3); change != 0; --change) {
        bytes[pick(random, 0, sizeof(submission) - 1)] = static_cast<std::uint8_t>(random());
      }
      for (std::uint32_t change = pick(random, 0, 4); change != 0; --change) {
        client.window().requests[pick(random, 0, 63)] = static_cast<std::byte>(random());
      }
      client.connection().submit(submission);
      nkv_daemon_completion completion{};
      while (client.connection().take(&completion)) {
        EXPECT_LE(completion.status, NKV_STATUS_WINDOW_TOO_SMALL);
      }
      if (step % 50 == 49) {
        (void)client.connection().await(
            client.connection().head(),
            std::chrono::steady_clock::now() + std::chrono::milliseconds(5));
      }
    }
  }
}

TEST_F(HostileTest, RequestsThatChangeWhileTheyAreReadDoNoHarm) {
  HostileClient client(config_.socket.path);
  const std::uint32_t number = client.open_namespace();
  std::atomic<bool> stop{false};
  const WindowView window = client.map_again();
  // Writes to everything that the client may write to, as fast as it can.
  std::thread changer([&] {
    Random random = case_random(7);
    const std::span<std::byte> requests = window.requests.first(64);
    const auto submissions = std::as_writable_bytes(window.submissions);
    while (!stop) {
      const std::size_t at = pick(random, 0, 63);
      std::atomic_ref(reinterpret_cast<std::uint8_t&>(requests[at]))
          .store(static_cast<std::uint8_t>(random()), std::memory_order_relaxed);
      const std::size_t place = pick(random, 0, 64 * NKV_DAEMON_RING_ENTRIES - 1);
      if (place % 64 >= 20) {
        std::atomic_ref(reinterpret_cast<std::uint8_t&>(submissions[place]))
            .store(static_cast<std::uint8_t>(random()), std::memory_order_relaxed);
      }
    }
  });
  std::uint64_t answered = 0;
  for (int step = 0; step < 3000 && client.connection().is_alive(); ++step) {
    const auto operation = static_cast<std::uint8_t>(step % 2 == 0 ? NKV_DAEMON_OPERATION_SET
                                                                   : NKV_DAEMON_OPERATION_GET);
    const auto completion = client.ask(client.one_object(operation, number, 100000));
    if (!completion) break;
    ++answered;
  }
  stop = true;
  changer.join();
  EXPECT_GT(answered, 0U);
}

TEST_F(HostileTest, DataThatChangesWhileItIsCopiedIsWhateverItWasButWhole) {
  HostileClient client(config_.socket.path);
  const std::uint32_t number = client.open_namespace();
  std::atomic<bool> stop{false};
  const WindowView window = client.map_again();
  std::thread changer([&] {
    Random random = case_random(8);
    while (!stop) {
      std::atomic_ref(reinterpret_cast<std::uint8_t&>(window.data[pick(random, 0, 99999)]))
          .store(static_cast<std::uint8_t>(random()), std::memory_order_relaxed);
    }
  });
  for (int step = 0; step < 300; ++step) {
    nkv_daemon_submission submission = client.one_object(NKV_DAEMON_OPERATION_SET, number, 100000);
    submission.flags = NKV_DAEMON_FLAG_OVERWRITE;
    auto completion = client.ask(submission);
    ASSERT_TRUE(completion);
    ASSERT_EQ(completion->status, NKV_STATUS_OK);
    completion = client.ask(client.one_object(NKV_DAEMON_OPERATION_GET, number, 100000));
    ASSERT_TRUE(completion);
    // The checksum is of the bytes that were stored, not of those that stood there before or after.
    ASSERT_EQ(client.window().requests[4096 + 4], std::byte{NKV_STATUS_OK}) << step;
  }
  stop = true;
  changer.join();
}

}  // namespace
}  // namespace nearkv::test
