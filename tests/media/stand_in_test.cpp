// What is touched of a mapping that the kernel took away reads as ones, and is known to be lost.
#include "media/stand_in.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <vector>

namespace nearkv::test {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kPages = 8;

/// Shared memory that can be taken from under its mapping, as a card's is when it goes.
class Mapping {
 public:
  Mapping() : fd_(::memfd_create("stand-in", MFD_CLOEXEC)) {
    if (::ftruncate(fd_, kPages * kPageBytes) != 0) throw std::runtime_error("no memory");
    void* const place =
        ::mmap(nullptr, kPages * kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    if (place == MAP_FAILED) throw std::runtime_error("no mapping");
    bytes_ = {static_cast<std::byte*>(place), kPages * kPageBytes};
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    ::munmap(bytes_.data(), bytes_.size());
    ::close(fd_);
  }

  void take_away() const { ASSERT_EQ(::ftruncate(fd_, 0), 0); }
  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

 private:
  int fd_;
  std::span<std::byte> bytes_;
};

bool is_ones(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0xFF}; });
}

TEST(StandInTest, ReadsAsOnesAndTakesWrites) {
  const Mapping mapping;
  const StandIn stand_in(mapping.bytes());
  mapping.bytes()[5] = std::byte{7};
  EXPECT_EQ(mapping.bytes()[5], std::byte{7});
  EXPECT_FALSE(stand_in.is_lost());
  mapping.take_away();
  EXPECT_FALSE(stand_in.is_lost());
  EXPECT_TRUE(is_ones(mapping.bytes()));
  EXPECT_TRUE(stand_in.is_lost());
  mapping.bytes()[kPageBytes + 1] = std::byte{3};
  EXPECT_EQ(mapping.bytes()[kPageBytes + 1], std::byte{3});
}

TEST(StandInTest, AWriteMayComeFirst) {
  const Mapping mapping;
  const StandIn stand_in(mapping.bytes());
  mapping.take_away();
  mapping.bytes()[0] = std::byte{1};
  EXPECT_TRUE(stand_in.is_lost());
  EXPECT_TRUE(is_ones(mapping.bytes().subspan(1)));
}

TEST(StandInTest, NobodySeesAPageBeforeItIsWhole) {
  for (int round = 0; round < 50; ++round) {
    const Mapping mapping;
    const StandIn stand_in(mapping.bytes());
    std::ranges::fill(mapping.bytes(), std::byte{0xFF});
    std::atomic<bool> has_seen_other = false;
    std::vector<std::thread> readers;
    for (int i = 0; i < 3; ++i) {
      readers.emplace_back([&] {
        while (!stand_in.is_lost()) has_seen_other = has_seen_other || !is_ones(mapping.bytes());
        has_seen_other = has_seen_other || !is_ones(mapping.bytes());
      });
    }
    mapping.take_away();
    for (std::thread& reader : readers) reader.join();
    EXPECT_FALSE(has_seen_other);
  }
}

TEST(StandInTest, OthersMemoryStillFaults) {
  const Mapping mapping;
  const Mapping other;
  const StandIn stand_in(mapping.bytes());
  other.take_away();
  EXPECT_EXIT(other.bytes()[0] = std::byte{1}, testing::KilledBySignal(SIGBUS), "");
  EXPECT_FALSE(stand_in.is_lost());
}

TEST(StandInTest, FaultsAgainWhenItEnds) {
  const Mapping mapping;
  std::optional<StandIn> stand_in;
  stand_in.emplace(mapping.bytes());
  mapping.take_away();
  EXPECT_EQ(mapping.bytes()[0], std::byte{0xFF});
  stand_in.reset();
  EXPECT_EQ(mapping.bytes()[0], std::byte{0xFF});
  EXPECT_EXIT(mapping.bytes()[kPageBytes] = std::byte{1}, testing::KilledBySignal(SIGBUS), "");
}

TEST(StandInTest, AGuardComesFirst) {
  const Mapping mapping;
  const StandIn stand_in(mapping.bytes());
  mapping.take_away();
  std::uintptr_t where = 0;
  EXPECT_EQ(guarded(
                mapping.bytes(), [&] { mapping.bytes()[0] = std::byte{1}; }, &where),
            Status::kPoison);
  EXPECT_FALSE(stand_in.is_lost());
}

TEST(StandInTest, MoreThanThereIsRoomForAreAsIfNotThere) {
  const Mapping mapping;
  std::vector<std::unique_ptr<StandIn>> all;
  for (std::size_t i = 0; i < StandIn::kMost; ++i) {
    all.push_back(std::make_unique<StandIn>(mapping.bytes().first(kPageBytes)));
  }
  const auto beyond = std::make_unique<StandIn>(mapping.bytes());
  mapping.take_away();
  EXPECT_EQ(mapping.bytes()[0], std::byte{0xFF});
  EXPECT_TRUE(all.front()->is_lost());
  EXPECT_FALSE(beyond->is_lost());
}

}  // namespace
}  // namespace nearkv::test
