// lz4_decode against liblz4 and the format's description, lz4_encode against liblz4's decoder: on
// the kinds of blocks that the RTL's are tested on, all of a test at once.
#include <cstdio>

#include "codec/lz4_reference.hpp"
#include "kernels.hpp"

namespace nearkv::opencl_test {
namespace {

using rtl_test::Bytes;
using rtl_test::kLargest;

constexpr std::uint8_t kUntouched = 0xa5;
constexpr std::size_t kGuard = 64;

/// First byte and bytes, as kernels take them.
struct Place {
  std::uint32_t first;
  std::uint32_t bytes;
};

/// Pieces of bytes, with bytes between them that nothing may write to.
struct Pieces {
  void add(const Bytes& piece) {
    places.push_back({.first = static_cast<std::uint32_t>(bytes.size()),
                      .bytes = static_cast<std::uint32_t>(piece.size())});
    bytes.insert(bytes.end(), piece.begin(), piece.end());
    bytes.resize(bytes.size() + kGuard, kUntouched);
  }

  [[nodiscard]] cl_uint count() const { return static_cast<cl_uint>(places.size()); }

  Bytes bytes;
  std::vector<Place> places;
};

Bytes bytes_at(const Bytes& bytes, Place place) {
  const auto first = bytes.begin() + place.first;
  return {first, first + place.bytes};
}

bool is_guard_untouched(const Bytes& bytes, Place place) {
  return bytes_at(bytes, {.first = place.first + place.bytes, .bytes = kGuard}) ==
         Bytes(kGuard, kUntouched);
}

class Lz4Test : public KernelsTest {
 protected:
  void add_block(const Bytes& block, std::size_t size) {
    blocks_.add(block);
    plain_.add(Bytes(size));
  }

  /// All blocks that were added.
  void expect_decodes_alike() {
    const cl::Buffer of_plain = runtime_->upload<std::uint8_t>(plain_.bytes);
    const cl::Buffer is_good = runtime_->allocate(blocks_.count() * sizeof(std::int32_t));
    runtime_->run("lz4_decode", cl::NDRange(opencl::in_groups(blocks_.count())),
                  runtime_->upload<std::uint8_t>(blocks_.bytes),
                  runtime_->upload<Place>(blocks_.places), blocks_.count(), of_plain,
                  runtime_->upload<Place>(plain_.places), is_good);
    const auto good = downloaded<std::int32_t>(is_good, blocks_.count());
    const auto decoded = downloaded<std::uint8_t>(of_plain, plain_.bytes.size());
    for (std::size_t i = 0; i < good.size(); ++i) {
      const Place place = plain_.places[i];
      SCOPED_TRACE(testing::Message() << "block " << i << " of " << place.bytes);
      const Bytes block = bytes_at(blocks_.bytes, blocks_.places[i]);
      const rtl_test::Reference expected = rtl_test::decode_by_liblz4(block, place.bytes);
      ASSERT_EQ(good[i] != 0, expected.plain.has_value());
      if (expected.plain) {
        ASSERT_TRUE(bytes_at(decoded, place) == *expected.plain);
      }
      ASSERT_TRUE(is_guard_untouched(decoded, place));
    }
  }

  /// Blocks that the kernel makes of `plain`, each with as much room; an empty one where that is
  /// too little.
  std::vector<Bytes> encoded(const std::vector<Bytes>& plain,
                             const std::vector<std::size_t>& rooms) {
    Pieces in;
    Pieces out;
    for (const Bytes& bytes : plain) in.add(bytes);
    for (const std::size_t room : rooms) out.add(Bytes(room));
    const cl::Buffer of_packed = runtime_->upload<std::uint8_t>(out.bytes);
    const cl::Buffer of_blocks = runtime_->allocate(in.count() * sizeof(Place));
    const cl::Buffer tables = runtime_->allocate(in.count() * (sizeof(std::uint32_t) << 13));
    runtime_->run("lz4_encode", cl::NDRange(opencl::in_groups(in.count())),
                  runtime_->upload<std::uint8_t>(in.bytes), runtime_->upload<Place>(in.places),
                  in.count(), tables, of_packed, runtime_->upload<Place>(out.places), of_blocks);
    const auto places = downloaded<Place>(of_blocks, in.count());
    const auto packed = downloaded<std::uint8_t>(of_packed, out.bytes.size());
    std::vector<Bytes> blocks;
    for (std::size_t i = 0; i < places.size(); ++i) {
      EXPECT_EQ(places[i].first, out.places[i].first);
      EXPECT_LE(places[i].bytes, out.places[i].bytes);
      EXPECT_TRUE(is_guard_untouched(packed, out.places[i])) << "behind block " << i;
      blocks.push_back(bytes_at(packed, places[i]));
    }
    return blocks;
  }

  std::vector<Bytes> expect_round_trips(const std::vector<Bytes>& plain) {
    std::vector<std::size_t> rooms;
    for (const Bytes& bytes : plain) {
      rooms.push_back(static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(bytes.size()))));
    }
    const std::vector<Bytes> blocks = encoded(plain, rooms);
    for (std::size_t i = 0; i < plain.size(); ++i) {
      SCOPED_TRACE(testing::Message() << "round " << i << " of " << plain[i].size());
      const rtl_test::Reference decoded = rtl_test::decode_by_liblz4(blocks[i], plain[i].size());
      EXPECT_TRUE(decoded.plain == plain[i]);
      if (HasFailure()) break;
      const rtl_test::Ends ends = rtl_test::ends_of(blocks[i]);
      if (!ends.has_match) continue;
      EXPECT_GE(ends.literals, 5U);
      EXPECT_LE(ends.last_match + 12, plain[i].size());
    }
    return blocks;
  }

 private:
  Pieces blocks_;
  Pieces plain_;
};

TEST_F(Lz4Test, DecodesBlocksOfEverySize) {
  test::Random random = test::case_random(1);
  for (unsigned i = 0; i < 400; ++i) {
    const std::size_t size = i < 150 ? i + 1 : test::pick(random, 1, 5000);
    add_block(rtl_test::compress(rtl_test::some_data(random, size, i % 8), i % 2 == 0), size);
  }
  expect_decodes_alike();
}

TEST_F(Lz4Test, DecodesLongBlocksThatReachBack64KiB) {
  test::Random random = test::case_random(2);
  for (unsigned sameness = 0; sameness < 8; sameness += 2) {
    add_block(rtl_test::compress(rtl_test::some_data(random, kLargest, sameness), true), kLargest);
  }
  Bytes ends = rtl_test::some_data(random, kLargest, 0);
  std::copy_n(ends.begin(), 200, ends.end() - 201);
  add_block(rtl_test::compress(ends, true), kLargest);
  expect_decodes_alike();
}

TEST_F(Lz4Test, DecodesEveryOffsetAndEnd) {
  for (std::size_t offset = 0; offset <= 40; ++offset) {
    for (const std::size_t literals : {offset - 1, offset, offset + 1, offset + 13}) {
      if (literals > 1000) continue;
      for (const std::size_t length : {4U, 5U, 15U, 18U, 19U, 40U, 300U}) {
        add_block(rtl_test::block_of_match(offset, length, literals), literals + length + 8);
      }
    }
  }
  // The last match: how long it is, how many literals follow.
  for (const std::size_t length : {4U, 5U, 6U, 7U, 8U, 9U, 12U, 19U, 300U}) {
    for (std::size_t tail = 0; tail < 15; ++tail) {
      for (const std::size_t literals : {1U, 10U, 14U, 20U}) {
        add_block(rtl_test::block_of_match(1, length, literals, tail), literals + length + tail);
      }
    }
  }
  expect_decodes_alike();
}

TEST_F(Lz4Test, RefusesWhatIsNoBlock) {
  const Bytes good = rtl_test::block_of_match(3, 20, 6);
  for (std::size_t size = 20; size < 60; ++size) {
    for (std::size_t cut = 0; cut <= good.size(); ++cut) {
      add_block(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(cut)), size);
    }
  }
  add_block({}, 0);
  add_block({}, 5);
  add_block({0}, 0);
  add_block({0}, 1);
  constexpr std::uint8_t kTokens[] = {0x00, 0x0f, 0xf0, 0xff};
  for (const std::uint8_t byte : kTokens) {
    add_block(Bytes(3000, byte), 1000);
    add_block(Bytes(3000, byte), 0);
  }
  test::Random random = test::case_random(3);
  for (unsigned i = 0; i < 3000; ++i) {
    const std::size_t size = test::pick(random, 1, 700);
    const Bytes block = rtl_test::maybe_damaged_block(random, size, i);
    add_block(block, i % 7 == 0 ? test::pick(random, 0, 900) : size);
  }
  expect_decodes_alike();
}

TEST_F(Lz4Test, EncodesDataOfEverySizeAndPeriod) {
  test::Random random = test::case_random(4);
  std::vector<Bytes> plain;
  for (unsigned i = 0; i < 800; ++i) {
    const std::size_t size = i < 400 ? i + 1 : test::pick(random, 1, 6000);
    plain.push_back(rtl_test::data_of_kind(random, size, i));
  }
  for (std::size_t period = 1; period < 40; period += 3) {
    for (std::size_t size = 1; size < 120; ++size) {
      Bytes& bytes = plain.emplace_back(size);
      for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(i % period);
    }
  }
  expect_round_trips(plain);
}

TEST_F(Lz4Test, WritesNoMoreThanThereIsRoomFor) {
  test::Random random = test::case_random(5);
  std::vector<Bytes> plain;
  std::vector<std::size_t> rooms;
  for (unsigned i = 0; i < 200; ++i) {
    plain.push_back(rtl_test::some_data(random, test::pick(random, 1, 600), i % 8));
  }
  const std::vector<Bytes> blocks = expect_round_trips(plain);
  for (std::size_t i = 0; i < plain.size(); ++i) rooms.push_back(blocks[i].size() - i % 3);
  const std::vector<Bytes> again = encoded(plain, rooms);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    ASSERT_TRUE(again[i] == (i % 3 == 0 ? blocks[i] : Bytes{})) << "round " << i;
  }
}

TEST_F(Lz4Test, EncodesToTheSizeOfLiblz4sBlocks) {
  test::Random random = test::case_random(6);
  const std::vector<std::pair<const char*, Bytes>> kinds = {
      {"noise", rtl_test::some_data(random, kLargest, 0)},
      {"zeros", Bytes(kLargest, 0)},
      {"text", rtl_test::text(random, kLargest)},
      {"records", rtl_test::records(random, kLargest)},
      {"skewed", rtl_test::skewed_data(random, kLargest, 2)},
      {"many matches", rtl_test::some_data(random, kLargest, 6)}};
  std::vector<Bytes> plain;
  for (const auto& [name, bytes] : kinds) plain.push_back(bytes);
  const std::vector<Bytes> blocks = expect_round_trips(plain);
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const std::size_t theirs = rtl_test::size_by_liblz4(plain[i]);
    std::printf("%s: %zu bytes to %zu (liblz4: %zu)\n", kinds[i].first, plain[i].size(),
                blocks[i].size(), theirs);
    EXPECT_LE(blocks[i].size(), theirs + theirs / 10 + 64) << kinds[i].first;
  }
}

}  // namespace
}  // namespace nearkv::opencl_test
