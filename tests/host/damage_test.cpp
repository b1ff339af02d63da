// A bit that flips in a page of a pool is found before anything is computed from it.
#include <gtest/gtest.h>

#include <cstring>

#include "support/devices.hpp"
#include "support/find_page.hpp"
#include "support/layer_rows.hpp"
#include "support/offers.hpp"
#include "support/page_shape.hpp"
#include "support/seed.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint64_t kSequence = 42;
constexpr std::size_t kTokens = 192;

class DamageTest : public testing::TestWithParam<std::string> {
 protected:
  DamageTest() {
    if (pool_->create_sequence(kSequence) != Status::kOk ||
        append(pool_.get(), kSequence, 1, rows_, 0, kTokens) != Status::kOk) {
      throw std::runtime_error(pool_->last_error());
    }
  }

  struct Results {
    Status status = Status::kOk;
    std::vector<float> floats;
    std::vector<std::uint32_t> ids;
    std::vector<std::uint16_t> rows;

    friend bool operator==(const Results&, const Results&) = default;
  };

  Results attend(std::uint8_t mode) {
    Results results;
    results.floats.resize(2 * kDim + 2);
    AttendRequest request;
    request.sequence = kSequence;
    request.layer = 1;
    request.kv_head = 1;
    request.rows = 2;
    request.query = std::as_bytes(std::span(queries_));
    request.output = std::span(results.floats).first(2 * kDim);
    request.lse = std::span(results.floats).subspan(2 * kDim);
    AttendOptions options;
    options.scale = 0.125F;
    options.mode = mode;
    options.top_k = kTokens;
    results.status = pool_->attend(std::span(&request, 1), options);
    return results;
  }

  Results top_k(std::uint8_t mode) {
    Results results;
    results.ids.resize(2 * 16 + 2);
    results.floats.resize(2 * 16);
    Pool::TopKRequest request;
    request.sequence = kSequence;
    request.layer = 1;
    request.kv_head = 1;
    request.rows = 2;
    request.top_k = 16;
    request.mode = mode;
    request.query = std::as_bytes(std::span(queries_));
    request.ids = std::span(results.ids).first(2 * 16);
    request.counts = std::span(results.ids).subspan(2 * 16);
    request.scores = results.floats;
    results.status = pool_->top_k(request);
    return results;
  }

  Results gather() {
    Results results;
    const std::vector<std::uint32_t> ids{100, 3, 70};
    results.rows.resize(2 * ids.size() * kDim);
    const auto bytes = std::as_writable_bytes(std::span(results.rows));
    results.status = pool_->gather(kSequence, 1, 1, ids, bytes.first(bytes.size() / 2),
                                   bytes.last(bytes.size() / 2));
    return results;
  }

  /// Either the call failed, or the damage did not matter to it.
  static void expect_never_wrong(const Results& before, const Results& after) {
    if (after.status == Status::kOk) {
      EXPECT_EQ(before, after);
    } else {
      EXPECT_TRUE(after.status == Status::kCorrupt || after.status == Status::kBadPage ||
                  after.status == Status::kStalePage)
          << message(after.status);
    }
  }

  LayerRows rows_{kTokens, 3};
  std::vector<std::uint16_t> queries_ = make_queries(rows_.heads[1], 2, 3.0, 9);
  const std::shared_ptr<Device> device_ = open_or_throw(comparing_always(GetParam()));
  std::unique_ptr<Pool> pool_ = create_or_throw(device_, small_pool());
};

TEST_P(DamageTest, NoBitOfAPageGoesUnnoticed) {
  std::byte* const page = find_page(device_->memory(), kSequence, 1, NKV_PAGE_TOKENS);
  nkv_page_header header{};
  std::memcpy(&header, page, sizeof(header));
  const nkv_page_shape shape = shape_of(header);
  nkv_page_layout layout{};
  nkv_lay_out_page(&shape, &layout);
  const auto array_of = [&](std::size_t byte) {
    for (int array = 0; array < NKV_PAGE_ARRAY_COUNT; ++array) {
      if (byte >= layout.offset[array] && byte < layout.offset[array] + layout.bytes[array]) {
        return array;
      }
    }
    return -1;
  };

  const Results dense = attend(NKV_ATTEND_MODE_DENSE);
  const bool has_codes = offers_feature(*device_, NKV_FEATURE_CODES);
  const Results tail = attend(NKV_ATTEND_MODE_TAIL);
  const Results full = top_k(NKV_SELECT_FULL);
  const Results statistical = top_k(NKV_SELECT_STATISTICAL);
  const Results gathered = gather();
  std::uint64_t pages = 0;
  ASSERT_EQ(dense.status, Status::kOk) << pool_->last_error();
  ASSERT_EQ(pool_->scrub(kSequence, &pages), Status::kOk);
  ASSERT_EQ(pages, kHeads * kTokens / NKV_PAGE_TOKENS);

  Random random = case_random(0);
  std::size_t found = 0;
  // Every bit of the header, and one of every third byte behind it.
  const std::uint64_t every = test_every();
  for (std::size_t bit = 0; bit < 8ULL * layout.total_bytes && !HasFailure();
       bit += every * (bit < 8 * sizeof(header) ? 1 : pick(random, 17, 31))) {
    const std::size_t byte = bit / 8;
    SCOPED_TRACE(case_name(0) + ", bit " + std::to_string(bit % 8) + " of byte " +
                 std::to_string(byte));
    const auto mask = static_cast<std::byte>(1U << (bit % 8));
    page[byte] ^= mask;
    const int array = array_of(byte);
    const bool covered = byte < sizeof(header) || array >= 0;
    const Status scrubbed = pool_->scrub(kSequence, &pages);
    EXPECT_EQ(scrubbed != Status::kOk, covered);
    if (covered) {
      ++found;
      EXPECT_NE(pool_->last_error().find("sequence 42, layer 1, KV head 1"), std::string::npos)
          << pool_->last_error();
    }
    expect_never_wrong(dense, attend(NKV_ATTEND_MODE_DENSE));
    expect_never_wrong(full, top_k(NKV_SELECT_FULL));
    expect_never_wrong(gathered, gather());
    if (has_codes) {
      expect_never_wrong(tail, attend(NKV_ATTEND_MODE_TAIL));
      expect_never_wrong(statistical, top_k(NKV_SELECT_STATISTICAL));
    }
    page[byte] ^= mask;
  }
  EXPECT_GT(found, 1500 / every);
  EXPECT_EQ(attend(NKV_ATTEND_MODE_DENSE), dense) << "the page was not put back";
}

INSTANTIATE_TEST_SUITE_P(Devices, DamageTest, testing::ValuesIn(device_uris()), device_name);

}  // namespace
}  // namespace nearkv::test
