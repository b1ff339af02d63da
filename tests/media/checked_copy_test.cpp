// Copies with a checksum: the bytes arrive, no other byte changes, and the sum is that of a slow
// CRC32C, whatever the sizes, alignments and segments.
#include "media/checked_copy.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "media/copy_fold.hpp"
#include "page/checksum.hpp"
#include "support/checksum.hpp"
#include "support/seed.hpp"

namespace nearkv::test {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::byte kUntouched{0xA5};

std::vector<std::byte> random_bytes(Random& random, std::size_t bytes) {
  std::vector<std::byte> data(bytes);
  for (std::byte& byte : data) byte = static_cast<std::byte>(random());
  return data;
}

/// Room of `bytes` that starts `offset` bytes past a page, with guards around it.
class Room {
 public:
  Room(std::size_t bytes, std::size_t offset) : storage_(bytes + 4 * kPageBytes, kUntouched) {
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    begin_ = kPageBytes + (kPageBytes - address % kPageBytes) + offset;
    bytes_ = bytes;
  }
  std::span<std::byte> span() { return std::span(storage_).subspan(begin_, bytes_); }
  /// Whether everything beyond the first `written` bytes is as it was.
  [[nodiscard]] bool surroundings_untouched(std::size_t written) const {
    const auto untouched = [](std::byte byte) { return byte == kUntouched; };
    return std::all_of(storage_.begin(), storage_.begin() + static_cast<std::ptrdiff_t>(begin_),
                       untouched) &&
           std::all_of(storage_.begin() + static_cast<std::ptrdiff_t>(begin_ + written),
                       storage_.end(), untouched);
  }

 private:
  std::vector<std::byte> storage_;
  std::size_t begin_ = 0;
  std::size_t bytes_ = 0;
};

/// Sizes around every boundary of the loops, and any.
std::size_t random_size(Random& random, std::size_t most) {
  static constexpr std::size_t kGrains[] = {1, 16, 64, 128, 256, 4096};
  const std::size_t grain = kGrains[pick(random, 0, std::size(kGrains) - 1)];
  const std::size_t size = grain * pick(random, 0, static_cast<std::uint32_t>(most / grain));
  const std::size_t nudged = size + pick(random, 0, 2);
  return std::min(most, nudged == 0 ? 0 : nudged - 1);
}

std::size_t random_offset(Random& random) {
  return random() % 2 == 0 ? 0 : pick(random, 0, kPageBytes - 1);
}

struct Direction {
  const char* name;
  std::uint32_t (*checked)(std::span<std::byte>, std::span<const std::byte>, std::uint32_t);
  void (*plain)(std::span<std::byte>, std::span<const std::byte>);
};

class CheckedCopyTest : public testing::TestWithParam<Direction> {};

TEST_P(CheckedCopyTest, MovesExactlyTheBytesAndSumsThem) {
  for (std::uint64_t number = 0; number < 400; ++number) {
    SCOPED_TRACE(case_name(number));
    Random random = case_random(number);
    // One in ten is large enough to be streamed out.
    const std::size_t most = number % 10 == 0 ? 2 * kStreamOutBytes : 20000;
    const std::vector<std::byte> source = random_bytes(random, most + 64);
    const std::span<const std::byte> from =
        std::span(source).subspan(pick(random, 0, 63)).first(random_size(random, most));
    Room room(from.size() + pick(random, 0, 100), random_offset(random));
    const std::uint32_t crc = GetParam().checked(room.span(), from, 0);
    copy_fence();
    EXPECT_EQ(crc, checksum(from));
    EXPECT_TRUE(std::equal(from.begin(), from.end(), room.span().begin()));
    EXPECT_TRUE(room.surroundings_untouched(from.size()));

    Room plain(from.size(), random_offset(random));
    GetParam().plain(plain.span(), from);
    copy_fence();
    EXPECT_TRUE(std::equal(from.begin(), from.end(), plain.span().begin()));
    EXPECT_TRUE(plain.surroundings_untouched(from.size()));
  }
}

TEST_P(CheckedCopyTest, ContinuesTheSumOfWhatCameBefore) {
  Random random = case_random(0);
  const std::vector<std::byte> source = random_bytes(random, 50000);
  Room room(source.size(), 0);
  std::uint32_t crc = 0;
  for (std::size_t at = 0; at < source.size();) {
    const std::size_t bytes = std::min(source.size() - at, random_size(random, 6000));
    crc = GetParam().checked(room.span().subspan(at), std::span(source).subspan(at, bytes), crc);
    at += bytes;
  }
  copy_fence();
  EXPECT_EQ(crc, crc32c(source));
  EXPECT_TRUE(std::equal(source.begin(), source.end(), room.span().begin()));
}

constexpr Direction kIn = {"In", &copy_in, &copy_in};
constexpr Direction kOut = {"Out", &copy_out, &copy_out};
std::string direction_name(const testing::TestParamInfo<Direction>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(Both, CheckedCopyTest, testing::Values(kIn, kOut), direction_name);

/// `bytes` cut into segments, some of them empty, many smaller than a line.
template <typename Byte>
std::vector<std::span<Byte>> cut(Random& random, std::span<Byte> bytes) {
  std::vector<std::span<Byte>> segments;
  const std::size_t most = pick(random, 0, 1) == 0 ? 100 : 3000;
  while (!bytes.empty()) {
    const std::size_t size = std::min(bytes.size(), random_size(random, most));
    segments.push_back(bytes.first(size));
    bytes = bytes.subspan(size);
  }
  return segments;
}

TEST(GatherTest, PutsSegmentsTogetherAndTakesThemApart) {
  for (std::uint64_t number = 0; number < 200; ++number) {
    SCOPED_TRACE(case_name(number));
    Random random = case_random(number);
    const std::vector<std::byte> source = random_bytes(random, random_size(random, 30000));
    const auto segments = cut(random, std::span(source));
    SourceCursor from(segments);
    ASSERT_EQ(from.remaining_bytes(), source.size());

    // In two calls, as an object with a hole in its extents takes it.
    Room pool(source.size(), random_offset(random));
    const std::size_t first = pick(random, 0, static_cast<std::uint32_t>(source.size()));
    std::uint32_t crc = gather_in(pool.span().first(first), &from, 0);
    crc = gather_in(pool.span().subspan(first), &from, crc);
    copy_fence();
    EXPECT_EQ(crc, checksum(source));
    EXPECT_EQ(from.remaining_bytes(), 0U);
    EXPECT_TRUE(std::equal(source.begin(), source.end(), pool.span().begin()));
    EXPECT_TRUE(pool.surroundings_untouched(source.size()));

    Room host(source.size(), random_offset(random));
    const auto targets = cut(random, host.span());
    TargetCursor to(targets);
    crc = scatter_out(&to, pool.span().first(first), 0);
    EXPECT_EQ(scatter_out(&to, pool.span().subspan(first), crc), checksum(source));
    EXPECT_TRUE(std::equal(source.begin(), source.end(), host.span().begin()));
    EXPECT_TRUE(host.surroundings_untouched(source.size()));
  }
}

TEST(GatherTest, StopsWhereEitherSideEnds) {
  Random random = case_random(0);
  const std::vector<std::byte> source = random_bytes(random, 1000);
  const std::vector<std::span<const std::byte>> segments = {std::span(source)};
  Room pool(3000, 0);
  SourceCursor from(segments);
  EXPECT_EQ(gather_in(pool.span(), &from, 0), checksum(source));
  EXPECT_TRUE(pool.surroundings_untouched(source.size()));

  std::vector<std::byte> host(600);
  const std::vector<std::span<std::byte>> targets = {std::span(host)};
  TargetCursor to(targets);
  EXPECT_EQ(scatter_out(&to, pool.span(), 0), checksum(std::span(source).first(600)));
}

TEST(CopyFoldTest, EveryWidthSumsAlike) {
  for (std::uint64_t number = 0; number < 50; ++number) {
    SCOPED_TRACE(case_name(number));
    Random random = case_random(number);
    const std::vector<std::byte> source =
        random_bytes(random, kFoldBlockBytes * pick(random, 1, 40));
    const auto before = static_cast<std::uint32_t>(random());
    // What the register held and the first bytes are added to each other.
    std::vector<std::byte> seeded = source;
    for (std::size_t byte = 0; byte < 4; ++byte) {
      seeded[byte] ^= static_cast<std::byte>(~before >> (8 * byte));
    }
    const std::uint32_t expected = ~checksum(seeded);
    for (const CopyFold fold : {&copy_fold_128, copy_fold_256()}) {
      if (fold == nullptr) continue;  // this processor has only the narrow one
      for (const StoreKind stores : {StoreKind::kOrdinary, StoreKind::kStream}) {
        Room room(source.size(), 0);
        EXPECT_EQ(fold(room.span().data(), source.data(), source.size(), before, stores), expected);
        copy_fence();
        EXPECT_TRUE(std::equal(source.begin(), source.end(), room.span().begin()));
        EXPECT_TRUE(room.surroundings_untouched(source.size()));
      }
    }
  }
}

}  // namespace
}  // namespace nearkv::test
