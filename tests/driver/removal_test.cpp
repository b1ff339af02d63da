// A card that goes while a process has it open: errors for its calls, SIGBUS for its memory, and
// everything as before once the card is back.
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "card_file.hpp"

namespace nearkv::test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kWindowBytes = 64 << 10;

void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path) << text << std::flush;
}

/// Takes the PCI function away; the hot-unplug of a card ends in the same place.
class RemovalTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_card()) GTEST_SKIP() << kNoCard;
    memory_ = card_attribute("memory");
    function_ = std::filesystem::canonical("/sys/class/misc/nearkv0/device");
  }

  void remove() const { write_file(function_ / "remove", "1"); }

  /// Brings it back, with its memory.
  void bring_back() const {
    write_file("/sys/bus/pci/rescan", "1");
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (!has_card() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(10ms);
    }
    ASSERT_TRUE(set_card_attribute("memory", memory_));
  }

  std::string memory_;
  std::filesystem::path function_;
};

TEST_F(RemovalTest, CallsEndAndMemoryIsGone) {
  CardFile file(kWindowBytes);
  ASSERT_EQ(file.start(file.whole_window()), 0);
  ASSERT_TRUE(file.works());
  nkv_card_wait wait{};
  ASSERT_EQ(file.call(NKV_IOCTL_WAIT, &wait), 0);
  std::thread remover([this] {
    std::this_thread::sleep_for(100ms);
    remove();
  });
  wait.timeout_ns = 20'000'000'000;
  EXPECT_EQ(file.call(NKV_IOCTL_WAIT, &wait), ENODEV);
  remover.join();
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
  bring_back();
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
    remove();
    bring_back();
  }
  EXPECT_EQ(CardFile().info().free_bytes, before.free_bytes);
  EXPECT_EQ(CardFile().info().free_queues, before.free_queues);
}

}  // namespace
}  // namespace nearkv::test
