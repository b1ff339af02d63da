// Random calls with almost right arguments, from several processes, for a bounded time. That the
// kernel said nothing is for the guest's test to see.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <array>
#include <bit>
#include <chrono>
#include <vector>

#include "card_file.hpp"
#include "support/environment.hpp"
#include "support/seed.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint64_t kWindowBytes = 64 << 10;

constexpr std::array<unsigned long, 9> kCalls = {
    NKV_IOCTL_INFO,        NKV_IOCTL_WINDOW,     NKV_IOCTL_WINDOW_FORGET,
    NKV_IOCTL_QUEUE_START, NKV_IOCTL_QUEUE_STOP, NKV_IOCTL_QUEUE_STATE,
    NKV_IOCTL_WAIT,        NKV_IOCTL_EVENTFD,    NKV_IOCTL_MAILBOX};

std::uint64_t interesting(Random& random) {
  const std::array<std::uint64_t, 8> choices{
      0,     1,        random() % 16,        4096 * (random() % 64), kWindowBytes,
      ~0ULL, random(), 1ULL << random() % 64};
  return choices.at(random() % choices.size());
}

/// One process, until somebody ends it.
[[noreturn]] void misbehave(std::uint64_t number) {
  Random random = case_random(number);
  std::vector<std::unique_ptr<CardFile>> files;
  std::vector<Mapping> mappings;
  while (true) {
    if (files.size() < 4 && random() % 8 == 0) files.push_back(std::make_unique<CardFile>());
    if (files.empty()) continue;
    CardFile& file = *files.at(random() % files.size());
    std::array<std::uint64_t, 16> argument{};
    for (std::uint64_t& word : argument) word = interesting(random);
    if (random() % 2 == 0) {
      // A window or queue as they should be, so that there is something to break.
      argument = {};
      argument[0] = random() % 2 == 0 ? kWindowBytes : std::uint64_t{16} << 32U;
      argument[2] = 1024;
      argument[4] = kWindowBytes;
    }
    unsigned long call = kCalls.at(random() % kCalls.size());
    if (random() % 16 == 0) call ^= 1UL << random() % 32;
    // Windows that are kept would have to be found again.
    if (call == NKV_IOCTL_WINDOW) argument[1] &= ~std::uint64_t{NKV_CARD_WINDOW_FLAG_KEEP};
    // Nobody sleeps long.
    if (call == NKV_IOCTL_WAIT) argument[1] = random() % 1'000'000;
    if (call == NKV_IOCTL_EVENTFD) argument[0] = 1000 + random() % 1000;
    const bool is_wild = random() % 64 == 0;
    ::ioctl(file.fd(), call, is_wild ? std::bit_cast<void*>(random()) : argument.data());
    const std::uint64_t page =
        random() % 2 == 0 ? random() % 32 : NKV_CARD_MAP_DOORBELLS + random() % 10;
    if (random() % 4 == 0) {
      mappings.push_back(file.map(page * CardFile::kPage, (1 + random() % 4) * CardFile::kPage));
    }
    if (mappings.size() > 16 || random() % 64 == 0) mappings.clear();
    if (random() % 32 == 0) files.erase(files.begin());
  }
}

TEST(DriverFuzzTest, NoCallHangsOrBreaksTheCard) {
  if (!has_card()) GTEST_SKIP() << kNoCard;
  const nkv_card_info before = CardFile().info();
  std::vector<pid_t> children;
  for (std::uint64_t i = 0; i < 3; ++i) {
    const pid_t child = ::fork();
    if (child == 0) misbehave(i);
    children.push_back(child);
  }
  std::this_thread::sleep_for(std::chrono::seconds(by_size(10, 600)));
  for (const pid_t child : children) {
    EXPECT_EQ(::waitpid(child, nullptr, WNOHANG), 0) << "a child died by itself";
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  EXPECT_TRUE(set_card_attribute("reset", "1"));
  EXPECT_EQ(CardFile().info().free_bytes, before.free_bytes);
  EXPECT_EQ(CardFile().info().free_queues, before.free_queues);
  CardFile file(kWindowBytes);
  ASSERT_EQ(file.start(file.whole_window()), 0);
  EXPECT_TRUE(file.works());
}

}  // namespace
}  // namespace nearkv::test
