// A card that goes while a process has it open: errors for its calls, SIGBUS for its memory, and
// everything as before once the card is back.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <chrono>
#include <optional>

#include "card_file.hpp"
#include "removable_card.hpp"

namespace nearkv::test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kWindowBytes = 64 << 10;

class RemovalTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_card()) GTEST_SKIP() << kNoCard;
    card_.emplace();
  }

  std::optional<RemovableCard> card_;
};

TEST_F(RemovalTest, CallsEndAndMemoryIsGone) {
  CardFile file(kWindowBytes);
  ASSERT_EQ(file.start(file.whole_window()), 0);
  ASSERT_TRUE(file.works());
  // The interrupt of a completion that has been seen may still be on its way.
  nkv_card_wait wait{.epoch = 0, .timeout_ns = 20'000'000'000};
  ASSERT_EQ(file.call(NKV_IOCTL_WAIT, &wait), 0);
  const int event = ::eventfd(0, EFD_NONBLOCK);
  const nkv_card_eventfd wanted{.fd = event, .reserved = 0};
  ASSERT_EQ(file.call(NKV_IOCTL_EVENTFD, &wanted), 0);
  std::thread remover([this] {
    std::this_thread::sleep_for(100ms);
    card_->remove();
  });
  EXPECT_EQ(file.call(NKV_IOCTL_WAIT, &wait), ENODEV);
  remover.join();
  eventfd_t count = 0;
  EXPECT_EQ(::eventfd_read(event, &count), 0);
  ::close(event);
  nkv_card_info info{};
  EXPECT_EQ(file.call(NKV_IOCTL_INFO, &info), ENODEV);
  EXPECT_EQ(file.stop(), ENODEV);
  pollfd poll{.fd = file.fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&poll, 1, 0), 1);
  EXPECT_NE(poll.revents & POLLHUP, 0);
  EXPECT_EXIT(file.window()[0] = std::byte{1}, testing::KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(std::atomic_ref(file.doorbell()->sq_tail).store(1), testing::KilledBySignal(SIGBUS),
              "");
  EXPECT_FALSE(file.map(0, kWindowBytes));
  card_->bring_back();
  // What is open stays with the card that has gone.
  EXPECT_EQ(file.call(NKV_IOCTL_INFO, &info), ENODEV);
  CardFile other(kWindowBytes);
  ASSERT_EQ(other.start(other.whole_window()), 0);
  EXPECT_TRUE(other.works());
}

TEST_F(RemovalTest, ManyTimesLeaksNothing) {
  const nkv_card_info before = CardFile().info();
  for (unsigned i = 0; i < 20; ++i) {
    CardFile file(kWindowBytes);
    ASSERT_EQ(file.start(file.whole_window()), 0);
    if (i % 2 == 0) file.close();
    card_->remove();
    card_->bring_back();
  }
  EXPECT_EQ(CardFile().info().free_bytes, before.free_bytes);
  EXPECT_EQ(CardFile().info().free_queues, before.free_queues);
}

}  // namespace
}  // namespace nearkv::test
