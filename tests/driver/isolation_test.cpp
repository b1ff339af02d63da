// Two files of the driver: neither reaches the other's window, by the driver's calls, by mappings,
// by commands or by rings that are nonsense.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "card_file.hpp"
#include "support/seed.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint64_t kWindowBytes = 64 << 10;
constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

class IsolationTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_card()) GTEST_SKIP() << kNoCard;
    std::ranges::fill(neighbour_.window(), std::byte{0xA5});
    ASSERT_EQ(neighbour_.start(neighbour_.whole_window()), 0);
  }

  /// Beyond the rings, which are the neighbour's own to change.
  [[nodiscard]] bool neighbour_is_untouched() const {
    return std::ranges::all_of(neighbour_.window().subspan(2 * CardFile::kRingBytes),
                               [](std::byte byte) { return byte == std::byte{0xA5}; });
  }

  // In this order: what is before a window is somebody's too.
  CardFile neighbour_{kWindowBytes};
  CardFile file_{kWindowBytes};
};

TEST_F(IsolationTest, MapsNothingButItsOwn) {
  const auto refused = [this](std::uint64_t at, std::size_t bytes) {
    return !Mapping(file_.fd(), at, bytes);
  };
  EXPECT_TRUE(refused(kWindowBytes, CardFile::kPage));
  EXPECT_TRUE(refused(0, kWindowBytes + CardFile::kPage));
  EXPECT_TRUE(refused(kWindowBytes - CardFile::kPage, 2 * CardFile::kPage));
  for (std::uint32_t i = 0; i < NKV_CARD_OPEN_QUEUES + 2; ++i) {
    EXPECT_TRUE(refused(CardFile::doorbell_at(i), CardFile::kPage)) << "doorbell of no queue " << i;
  }
  EXPECT_TRUE(refused(CardFile::doorbell_at(0) - CardFile::kPage, CardFile::kPage));
  EXPECT_TRUE(refused((kMost >> 1U) - CardFile::kPage + 1, CardFile::kPage));
  ASSERT_EQ(file_.start(file_.whole_window()), 0);
  EXPECT_TRUE(refused(CardFile::doorbell_at(0), 2 * CardFile::kPage));
  // Copies and code are of no use here.
  EXPECT_FALSE(Mapping(file_.fd(), 0, kWindowBytes, PROT_READ, MAP_PRIVATE));
  EXPECT_FALSE(Mapping(file_.fd(), 0, kWindowBytes, PROT_READ | PROT_EXEC));
  EXPECT_NE(::mprotect(file_.window().data(), CardFile::kPage, PROT_READ | PROT_EXEC), 0);
}

TEST_F(IsolationTest, WindowsShareNoByte) {
  EXPECT_TRUE(std::ranges::all_of(file_.window(), [](std::byte b) { return b == std::byte{0}; }));
  std::ranges::fill(file_.window(), std::byte{0x5A});
  EXPECT_TRUE(neighbour_is_untouched());
}

TEST_F(IsolationTest, ANewWindowTellsNothingOfWhoHadItBefore) {
  const std::uint64_t free = file_.info().free_bytes;
  for (unsigned i = 0; i < 8; ++i) {
    CardFile other(kWindowBytes);
    ASSERT_EQ(other.window().size(), kWindowBytes);
    ASSERT_TRUE(std::ranges::all_of(other.window(), [](std::byte b) { return b == std::byte{0}; }));
    std::ranges::fill(other.window(), std::byte{0xEE});
  }
  EXPECT_EQ(file_.info().free_bytes, free);
}

TEST_F(IsolationTest, StartsNoQueueBeyondItsWindow) {
  const nkv_card_queue good = file_.whole_window();
  std::vector<nkv_card_queue> bad;
  const auto with = [&](auto change) {
    bad.push_back(good);
    change(bad.back());
  };
  for (const std::uint64_t at : {kWindowBytes, kWindowBytes - CardFile::kRingBytes + 64, kMost - 63,
                                 kMost / 64 * 64, std::uint64_t{1} << 63U, std::uint64_t{1}}) {
    with([at](nkv_card_queue& queue) { queue.sq_base = at; });
    with([at](nkv_card_queue& queue) { queue.cq_base = at; });
  }
  for (const std::uint64_t bytes : {std::uint64_t{0}, kWindowBytes + 1, kMost}) {
    with([bytes](nkv_card_queue& queue) { queue.window_bytes = bytes; });
  }
  with([](nkv_card_queue& queue) { queue.window_base = 256; });
  with([](nkv_card_queue& queue) { queue.window_base = kMost - 255; });
  with([](nkv_card_queue& queue) {
    queue.window_base = kWindowBytes;
    queue.window_bytes = 256;
  });
  for (const std::uint32_t entries : {0U, 1U, 8U, 17U, 8192U, 1U << 31U, ~0U}) {
    with([entries](nkv_card_queue& queue) { queue.ring_entries = entries; });
  }
  with([](nkv_card_queue& queue) { queue.index = NKV_CARD_OPEN_QUEUES; });
  with([](nkv_card_queue& queue) { queue.index = ~0U; });
  with([](nkv_card_queue& queue) { queue.reserved[6] = 1; });
  with([](nkv_card_queue& queue) { queue.weight = 16; });
  for (const nkv_card_queue& queue : bad) {
    EXPECT_EQ(file_.call(NKV_IOCTL_QUEUE_START, &queue), EINVAL)
        << "sq " << queue.sq_base << " cq " << queue.cq_base << " window " << queue.window_base
        << " + " << queue.window_bytes << " entries " << queue.ring_entries;
  }
  EXPECT_EQ(file_.start(good), 0);
  EXPECT_EQ(file_.call(NKV_IOCTL_QUEUE_START, &good), EBUSY);
}

TEST_F(IsolationTest, TakesALargerShareOnlyForWhoMayHaveIt) {
  nkv_card_queue queue = file_.whole_window();
  queue.weight = 15;
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setuid(65534) != 0) ::_exit(1);
    if (file_.call(NKV_IOCTL_QUEUE_START, &queue) != EPERM) ::_exit(2);
    queue.weight = 1;
    ::_exit(file_.call(NKV_IOCTL_QUEUE_START, &queue) == 0 ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  CardFile other(kWindowBytes);
  queue = other.whole_window();
  queue.weight = 15;
  EXPECT_EQ(other.start(queue), 0) << "root may";
}

TEST_F(IsolationTest, CommandsReachNothingBeyondTheirWindow) {
  ASSERT_EQ(file_.start(file_.whole_window()), 0);
  Random random = case_random(1);
  unsigned refused = 0;
  for (unsigned i = 0; i < 400; ++i) {
    SCOPED_TRACE(case_name(i));
    std::array<std::uint64_t, NKV_COMMAND_BYTES / 8> words{};
    for (std::uint64_t& word : words) {
      // Small numbers are lengths that look right, large ones addresses near the window's end.
      const std::uint64_t near = kWindowBytes + (random() % 8192) * 8;
      const std::array<std::uint64_t, 4> choices{random() % 64, near, random(), near << 32U | 64};
      word = choices.at(random() % choices.size());
    }
    nkv_pages_command command{};
    std::memcpy(&command, words.data(), sizeof(command));
    command.opcode = static_cast<std::uint8_t>(random() % 12);
    file_.submit(command);
    const nkv_completion completion = file_.take();
    ASSERT_NE(completion.status, NKV_STATUS_INTERNAL);
    refused += completion.status != NKV_STATUS_OK ? 1 : 0;
  }
  EXPECT_GT(refused, 300U);
  EXPECT_TRUE(neighbour_is_untouched());
  EXPECT_TRUE(neighbour_.works());
}

TEST_F(IsolationTest, RingsOverwrittenInFlightHarmNobodyElse) {
  ASSERT_EQ(file_.start(file_.whole_window()), 0);
  Random random = case_random(2);
  for (unsigned round = 0; round < 200; ++round) {
    for (std::byte& byte : file_.window().first(2 * CardFile::kRingBytes)) {
      byte = static_cast<std::byte>(random());
    }
    std::atomic_ref(file_.doorbell()->sq_tail).store(static_cast<std::uint16_t>(random()));
    std::atomic_ref(file_.doorbell()->cq_head).store(static_cast<std::uint16_t>(random()));
  }
  EXPECT_TRUE(neighbour_.works());
  EXPECT_TRUE(neighbour_is_untouched());
  EXPECT_EQ(file_.stop(), 0);
  EXPECT_EQ(file_.start(file_.whole_window()), 0);
  EXPECT_TRUE(file_.works());
}

TEST_F(IsolationTest, ADoorbellGoesWithItsQueue) {
  ASSERT_EQ(file_.start(file_.whole_window()), 0);
  EXPECT_TRUE(file_.works());
  ASSERT_EQ(file_.stop(), 0);
  // Its page may be another's now.
  EXPECT_EXIT(std::atomic_ref(file_.doorbell()->sq_tail).store(1), testing::KilledBySignal(SIGBUS),
              "");
  EXPECT_FALSE(file_.map(CardFile::doorbell_at(0), CardFile::kPage));
}

TEST_F(IsolationTest, AKeptWindowIsItsUsersAlone) {
  ASSERT_EQ(::chmod(card_path().c_str(), 0666), 0);
  CardFile kept;
  ASSERT_TRUE(kept.take_window(kWindowBytes, "secret"));
  kept.close();
  const auto opens_as = [](uid_t user) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (::setuid(user) != 0) ::_exit(2);
      CardFile other;
      ::_exit(other.take_window(0, "secret", NKV_CARD_WINDOW_FLAG_MUST_EXIST) ? 0 : errno);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  };
  EXPECT_EQ(opens_as(1000), ENOENT);
  EXPECT_EQ(opens_as(0), 0);
  ASSERT_EQ(::chmod(card_path().c_str(), 0600), 0);
  CardFile last;
  ASSERT_TRUE(last.take_window(0, "secret", NKV_CARD_WINDOW_FLAG_MUST_EXIST));
  EXPECT_EQ(::ioctl(last.fd(), NKV_IOCTL_WINDOW_FORGET), 0);
}

}  // namespace
}  // namespace nearkv::test
