// Those who wait for one daemon in one client, beside each other.
#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <thread>

#include "server_fixture.hpp"
#include "support/objects.hpp"

namespace nearkv::test {
namespace {

class WaitingTest : public testing::Test {
 protected:
  void SetUp() override {
    config_ = small_config(folder_);
    server_ = start_server(config_);
    ObjectStore::ClientOptions options;
    options.answer_timeout = kAnswerTimeout;
    ASSERT_EQ(ObjectStore::connect(config_.socket.path, options, &store_), Status::kOk);
    ASSERT_EQ(store_->open_namespace(namespace_of(1), &space_), Status::kOk);
    ASSERT_EQ(store_->allocate(16 << 20, &memory_), Status::kOk);
    ASSERT_EQ(set(store_.get(), space_, key_of(1), memory_), Status::kOk);
  }

  /// The object of key 1, which takes longer than anybody looks at the ring without sleeping.
  Status get_all() {
    const Bytes key = key_of(1);
    ObjectItem item;
    item.key = key;
    item.target = std::span(&memory_, 1);
    return run_one(store_.get(), space_, item, {});
  }

  /// Who waits for a silent daemon looks again after parts of this.
  static constexpr std::chrono::seconds kAnswerTimeout{80};

  TemporaryFolder folder_;
  ServerConfig config_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<ObjectStore> store_;
  std::uint32_t space_ = 0;
  std::span<std::byte> memory_;
};

TEST_F(WaitingTest, DrainingTakesNobodyElsesWakeUp) {
  std::atomic<bool> stop = false;
  std::thread drainer([&] {
    while (!stop) {
      EXPECT_TRUE(store_->drain().empty());
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  });
  bool was_late = false;
  for (int i = 0; i < 100 && !was_late; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(get_all(), Status::kOk);
    was_late = std::chrono::steady_clock::now() - begin > kAnswerTimeout / 10;
  }
  EXPECT_FALSE(was_late) << "it slept on, though its job was over";
  stop = true;
  drainer.join();
}

TEST_F(WaitingTest, CallsGoPastJobsThatWait) {
  constexpr std::size_t kJobs = 2000;  // More than can be in flight.
  const std::span<std::byte> part = memory_.first(1 << 20);
  ASSERT_EQ(set(store_.get(), space_, key_of(2), part), Status::kOk);
  for (std::size_t i = 0; i < kJobs; ++i) {
    JobId id = 0;
    ASSERT_EQ(submit_get(store_.get(), space_, key_of(2), part, &id), Status::kOk);
  }
  EXPECT_TRUE(exists(store_.get(), space_, key_of(1)));
  std::size_t over = store_->drain().size();
  EXPECT_LT(over, kJobs / 2);
  while (over < kJobs) over += store_->drain().size();
}

}  // namespace
}  // namespace nearkv::test
