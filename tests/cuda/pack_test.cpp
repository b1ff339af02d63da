// Pages that a kernel builds, beside those that APPEND builds of the same rows, bit by bit.
#include <cstring>
#include <functional>
#include <limits>

#include "cuda/device_memory.hpp"
#include "support/page_commands.hpp"
#include "support/page_source.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint8_t kRaw = NKV_ROW_FORM_RAW;
constexpr std::uint8_t kDelta4 = NKV_ROW_FORM_DELTA4;
constexpr std::uint8_t kNone = NKV_ROW_FORM_NONE;
constexpr std::uint16_t kGeneration = 3;

void put(std::vector<std::byte>* rows, std::size_t element, std::uint16_t bits) {
  std::memcpy(rows->data() + 2 * element, &bits, sizeof(bits));
}

class PackTest : public NearGpu {
 protected:
  /// Rows in memory of their own, further apart than they are long where that is allowed.
  nearkv_cuda_rows spread(const std::vector<std::byte>& rows, std::size_t row_bytes,
                          std::size_t stride, std::size_t offset = 0) {
    const std::size_t pitch = row_bytes + 32;
    const std::size_t tokens = rows.size() / stride;
    const std::span<std::byte> place = room<std::byte>(tokens * pitch);
    for (std::size_t token = 0; token < tokens; ++token) {
      std::memcpy(&place[token * pitch], &rows[token * stride + offset], row_bytes);
    }
    return {place.data(), 0, pitch};
  }

  /// The work that packs a source as APPEND of page_source.hpp does, to places of its own.
  nearkv_cuda_pack_args work_of(const PageSource& source) {
    const std::size_t element = nkv_element_bytes(source.dtype);
    const std::uint32_t pages = source.tokens() / NKV_PAGE_TOKENS;
    nearkv_cuda_pack_args work{};
    work.shape.k_form = source.k_form;
    work.shape.v_form = source.v_form;
    work.shape.dtype = source.dtype;
    work.shape.flags = source.key_scales ? NKV_PAGE_FLAG_KEY_SCALES : 0;
    work.shape.head_dim = source.head_dim;
    work.shape.value_dim = source.value_dim;
    work.keys = spread(source.keys, source.head_dim * element, source.key_stride());
    if (source.v_form != kNone) {
      work.values = spread(source.values, source.value_dim * element, source.value_stride());
    }
    if (source.key_scales) {
      work.key_scales =
          spread(source.keys, sizeof(float), source.key_stride(), source.head_dim * element);
    }
    work.window = bench_.window().data();
    work.window_bytes = bench_.window().size();
    std::vector<nkv_page_entry> entries(pages);
    for (nkv_page_entry& entry : entries) {
      const std::uint64_t place = bench_.allocate(source.layout().total_bytes);
      std::memset(bench_.at<std::byte>(place), 0x5A, source.layout().total_bytes);
      entry.page = static_cast<std::uint32_t>(place / NKV_PAGE_GRAIN_BYTES);
      entry.generation = kGeneration;
    }
    page_list_ = bench_.store(std::span<const nkv_page_entry>(entries));
    work.entries = bench_.at<nkv_page_entry>(page_list_);
    statuses_ = room<std::uint8_t>(pages);
    work.statuses = statuses_.data();
    work.sequence = 77;
    work.kv_heads = 1;
    work.tokens = source.tokens();
    work.first_token = 640;
    work.layer = 5;
    work.kv_head = 6;
    return work;
  }

  void pack(const nearkv_cuda_pack_args& work) {
    ASSERT_EQ(nearkv_cuda_pack(gpu_, &work, nullptr), NKV_STATUS_OK) << error();
    synchronize();
  }

  /// Packs a source both ways; the pages and their entries' exponents are the same.
  void check(const PageSource& source) {
    bench_.clear();
    const StoredList wanted = append(&bench_, source, kGeneration);
    ASSERT_EQ(wanted.completion.status, NKV_STATUS_OK);
    pack(work_of(source));
    for (std::size_t page = 0; page < wanted.pages(); ++page) {
      ASSERT_EQ(int{statuses_[page]}, NKV_STATUS_OK) << page;
      const auto other = page_at(&bench_, wanted.page_list, page, wanted.page_bytes);
      const auto own = page_at(&bench_, page_list_, page, wanted.page_bytes);
      const auto [differs, from] = std::ranges::mismatch(own, other);
      ASSERT_EQ(differs - own.begin(), own.end() - own.begin())
          << "page " << page << ": the first byte of " << own.size() << " that differs";
      const nkv_page_entry entry = bench_.at<nkv_page_entry>(page_list_)[page];
      const nkv_page_entry like = bench_.at<nkv_page_entry>(wanted.page_list)[page];
      EXPECT_EQ(int{entry.k_exponent}, int{like.k_exponent});
      EXPECT_EQ(int{entry.v_exponent}, int{like.v_exponent});
      EXPECT_EQ(entry.generation, kGeneration);
    }
  }

  std::uint64_t page_list_ = 0;
  std::span<std::uint8_t> statuses_;
};

TEST_F(PackTest, RowsOfEveryShapeInDelta4) {
  unsigned held = 0;
  for (const Shape shape : {Shape::kGaussian, Shape::kBiased, Shape::kOutliers, Shape::kSparse}) {
    for (const std::uint16_t dim : std::initializer_list<std::uint16_t>{16, 80, 128, 576}) {
      SCOPED_TRACE(testing::Message() << "shape " << int(shape) << ", dim " << dim);
      const auto value_dim = static_cast<std::uint16_t>(dim == 128 ? 64 : dim);
      PageSource source = page_source(make_kv(shape, 128, dim, value_dim, dim), kDelta4, kDelta4);
      bench_.clear();
      if (append(&bench_, source).completion.status == NKV_STATUS_PAGE_OVERFLOW) {
        source.k_form = source.v_form = kRaw;
      }
      held += source.k_form == kDelta4 ? 1 : 0;
      check(source);
    }
  }
  EXPECT_GE(held, 8U) << "of 16 sources that DELTA4 may hold";
}

TEST_F(PackTest, AnyPatternsOfEveryTypeInRaw) {
  for (const std::uint8_t dtype :
       {NKV_DTYPE_BF16, NKV_DTYPE_FP16, NKV_DTYPE_FP8_E4M3, NKV_DTYPE_FP8_E5M2, NKV_DTYPE_INT8}) {
    SCOPED_TRACE(int{dtype});
    check(random_source(dtype, 80, 48, false, 128, 5));
    check(random_source(dtype, 128, 144, true, 64, 6));
    check(random_source(dtype, 16, 16, true, 64, 7));
  }
}

TEST_F(PackTest, EveryPatternOf8BitsAndOfFp16) {
  for (const std::uint8_t dtype : {NKV_DTYPE_FP8_E4M3, NKV_DTYPE_FP8_E5M2, NKV_DTYPE_INT8}) {
    PageSource source = random_source(dtype, 16, 16, false, 64, 1);
    for (std::size_t i = 0; i < source.keys.size(); ++i) {
      source.keys[i] = source.values[i] = static_cast<std::byte>(i % 256);
    }
    check(source);
  }
  PageSource source = random_source(NKV_DTYPE_FP16, 512, 512, false, 128, 1);
  for (std::size_t i = 0; i < 65536; ++i) {
    put(&source.keys, i, static_cast<std::uint16_t>(i));
    put(&source.values, i, static_cast<std::uint16_t>(65535 - i));
  }
  check(source);
}

TEST_F(PackTest, ZerosInfinitiesAndTheLeastAndGreatestNumbers) {
  PageSource source = random_source(NKV_DTYPE_BF16, 64, 64, false, 64, 1);
  const std::vector<std::uint16_t> patterns = {0x0000, 0x8000, 0x7F80, 0xFF80, 0x7FC1,
                                               0x0001, 0x807F, 0x0080, 0x8080, 0x7F7F,
                                               0xFF7F, 0x3F80, 0xBF80};
  // A channel of each pattern alone, then of each pair, up to whole pages of one number.
  for (const std::uint16_t common : patterns) {
    for (std::size_t i = 0; i < std::size_t{64} * 64; ++i) {
      const std::size_t channel = i % 64;
      const std::size_t token = i / 64;
      const bool other = channel < 2 * patterns.size() && (channel % 2 == 0 || token == channel);
      put(&source.keys, i, other ? patterns[channel / 2] : common);
      put(&source.values, i, other ? patterns[channel / 2] : common);
    }
    SCOPED_TRACE(common);
    check(source);
    PageSource alike = source;
    for (std::size_t i = 0; i < std::size_t{64} * 64; ++i) {
      put(&alike.keys, i, common);
      put(&alike.values, i, common);
    }
    check(alike);
  }
}

TEST_F(PackTest, RangesOfEverySizeAndPlaceGetTheSmallestStep) {
  PageSource source = random_source(NKV_DTYPE_BF16, 576, 16, false, 64, 1);
  std::uint32_t state = 1;
  for (unsigned round = 0; round < 6; ++round) {
    // A channel's numbers share an exponent's neighbourhood, so that steps of all kinds are met.
    for (std::uint32_t channel = 0; channel < 576; ++channel) {
      const std::uint32_t top = 20 + (channel * 7 + round * 31) % 220;
      for (std::uint32_t token = 0; token < 64; ++token) {
        state = state * 1664525U + 1013904223U;
        const std::uint32_t exponent = top - (state >> 28) % (1 + channel % 4);
        const std::uint32_t sign = channel % 3 == 0 ? state >> 27 & 1U : channel % 3 - 1;
        put(&source.keys, std::size_t{token} * 576 + channel,
            static_cast<std::uint16_t>(sign << 15 | exponent << 7 | (state >> 16 & 0x7FU)));
      }
    }
    check(source);
  }
}

TEST_F(PackTest, ExceptionsUpToAsManyAsFit) {
  for (const unsigned count : {1U, 15U, 16U}) {
    PageSource source = random_source(NKV_DTYPE_BF16, 80, 80, false, 64, 1);
    source.k_form = source.v_form = kDelta4;
    for (unsigned i = 0; i < 64 * 80; ++i) {
      put(&source.keys, i, static_cast<std::uint16_t>(0x3F80 + i % 128));
      put(&source.values, i, static_cast<std::uint16_t>(0xBF00 + i % 256));
    }
    for (unsigned i = 0; i < count; ++i) {
      put(&source.keys, (i * 331) % (64 * 80), i % 2 == 0 ? 0x7F80 : 0x0001);
      put(&source.values, 64 * 80 - 1 - i, i % 2 == 0 ? 0xFFC0 : 0x0080);
    }
    check(source);
  }
}

TEST_F(PackTest, APageThatDelta4CannotHoldIsToldAndTheOthersAreThere) {
  PageSource source = page_source(make_kv(Shape::kGaussian, 192, 64, 64, 3), kDelta4, kDelta4);
  for (unsigned i = 0; i < 17; ++i) put(&source.values, 64 * 64 + 3 * i, 0x7F80);
  const nearkv_cuda_pack_args work = work_of(source);
  const nkv_page_entry before = work.entries[1];
  pack(work);
  EXPECT_EQ(std::vector<std::uint8_t>(statuses_.begin(), statuses_.end()),
            (std::vector<std::uint8_t>{NKV_STATUS_OK, NKV_STATUS_PAGE_OVERFLOW, NKV_STATUS_OK}));
  const auto page = page_at(&bench_, page_list_, 1, 4);
  EXPECT_TRUE(std::ranges::all_of(page, [](std::byte b) { return b == std::byte{0}; }))
      << "a page that is none has a first word";
  EXPECT_EQ(std::memcmp(&before, &work.entries[1], sizeof(before)), 0);
  // What APPEND's caller does.
  source.k_form = source.v_form = kRaw;
  check(source);
}

TEST_F(PackTest, ValuesThatAreNotStoredAreTheLeadingChannelsOfTheKeys) {
  for (const std::uint8_t form : {kRaw, kDelta4}) {
    for (const std::uint16_t value_dim : std::initializer_list<std::uint16_t>{512, 0, 576}) {
      PageSource source = page_source(make_kv(Shape::kBiased, 64, 576, value_dim, 4), form, kNone);
      put(&source.keys, 600, 0x7F80);
      check(source);
    }
  }
}

TEST_F(PackTest, HeadsLieWhereTheirStrideSays) {
  constexpr std::uint32_t kHeads = 3;
  constexpr std::uint16_t kDim = 32;
  const PageSource source =
      page_source(make_kv(Shape::kGaussian, kHeads * 128, kDim, kDim, 9), kDelta4, kDelta4);
  nearkv_cuda_pack_args work = work_of(source);
  work.kv_heads = kHeads;
  work.tokens = 128;
  // Token by token, a head's row beside the next's, as engines keep them.
  for (nearkv_cuda_rows* rows : {&work.keys, &work.values}) {
    const auto* const from = static_cast<const std::byte*>(rows->first);
    const std::span<std::byte> place = room<std::byte>(128 * kHeads * 64);
    for (std::size_t row = 0; row < kHeads * 128; ++row) {
      std::memcpy(&place[(row % 128 * kHeads + row / 128) * 64], from + row * rows->token_bytes,
                  64);
    }
    *rows = {place.data(), 64, kHeads * 64};
  }
  pack(work);
  const StoredList wanted = append(&bench_, source, kGeneration);
  for (std::uint32_t page = 0; page < 2 * kHeads; ++page) {
    ASSERT_EQ(int{statuses_[page]}, NKV_STATUS_OK);
    const auto own = page_at(&bench_, page_list_, page, wanted.page_bytes);
    const auto other = page_at(&bench_, wanted.page_list, page, wanted.page_bytes);
    EXPECT_TRUE(std::ranges::equal(own.subspan(sizeof(nkv_page_header)),
                                   other.subspan(sizeof(nkv_page_header))));
    const auto& header = *reinterpret_cast<const nkv_page_header*>(own.data());
    EXPECT_EQ(header.kv_head, 6 + page / 2);
    EXPECT_EQ(header.first_token, 640 + page % 2 * 64);
  }
}

TEST_F(PackTest, TheDevicesCommandsTakeSuchPages) {
  const KvData data = make_kv(Shape::kGaussian, 256, 64, 64, 12);
  const PageSource source = page_source(data, kDelta4, kDelta4);
  const StoredList appended = append(&bench_, source, kGeneration);
  pack(work_of(source));
  StoredList packed = appended;
  packed.page_list = page_list_;
  EXPECT_EQ(bench_.run(pages_command(packed, NKV_OPCODE_SCRUB)).status, NKV_STATUS_OK);
  const std::vector<std::uint16_t> queries = make_queries(data, 4, 3, 7);
  const AttendOutcome own = attend(&bench_, attend_command(&bench_, packed, queries));
  const AttendOutcome other = attend(&bench_, attend_command(&bench_, appended, queries));
  ASSERT_EQ(own.completion.status, NKV_STATUS_OK);
  EXPECT_EQ(own.output, other.output);
  EXPECT_EQ(own.lse, other.lse);
}

TEST_F(PackTest, APlaceThatIsNotInTheWindowIsTold) {
  const PageSource source = page_source(make_kv(Shape::kGaussian, 128, 64, 64, 3), kRaw, kRaw);
  nearkv_cuda_pack_args work = work_of(source);
  work.entries[1].page = std::numeric_limits<std::uint32_t>::max();
  pack(work);
  EXPECT_EQ(int{statuses_[0]}, NKV_STATUS_OK);
  EXPECT_EQ(int{statuses_[1]}, NKV_STATUS_ADDRESS_FAULT);
  work.window_bytes =
      std::uint64_t{work.entries[0].page} * NKV_PAGE_GRAIN_BYTES + source.layout().total_bytes - 1;
  pack(work);
  EXPECT_EQ(int{statuses_[0]}, NKV_STATUS_ADDRESS_FAULT);
}

TEST_F(PackTest, RefusesShapesRowsAndPointersThatNoPageCanBeMadeOf) {
  const nearkv_cuda_pack_args good =
      work_of(random_source(NKV_DTYPE_FP8_E4M3, 128, 128, true, 64, 3));
  const auto refused = [&](const std::function<void(nearkv_cuda_pack_args*)>& spoil) {
    nearkv_cuda_pack_args work = good;
    spoil(&work);
    EXPECT_EQ(nearkv_cuda_pack(gpu_, &work, nullptr), NKV_STATUS_BAD_ARGUMENT);
    EXPECT_NE(error(), "");
  };
  using Work = nearkv_cuda_pack_args;
  const auto shifted = [](const void* place, std::size_t bytes) {
    return static_cast<const std::byte*>(place) + bytes;
  };
  refused([](Work* w) { w->shape.head_dim = 120; });
  refused([](Work* w) { w->shape.value_dim = 0; });
  refused([](Work* w) { w->shape.dtype = NKV_DTYPE_FP32; });
  refused([](Work* w) { w->shape.k_form = kDelta4; });
  refused([](Work* w) { w->shape.k_form = kNone; });
  refused([](Work* w) { w->shape.flags = 0x80; });
  refused([](Work* w) { w->tokens = 65; });
  refused([](Work* w) { w->keys.first = nullptr; });
  refused([&](Work* w) { w->keys.first = shifted(w->keys.first, 8); });
  refused([](Work* w) { w->keys.token_bytes += 4; });
  refused([](Work* w) { w->values.first = nullptr; });
  refused([](Work* w) { w->values.head_bytes = 24; });
  refused([](Work* w) { w->key_scales.first = nullptr; });
  refused([](Work* w) { w->key_scales.token_bytes = 6; });
  refused([](Work* w) { w->window = static_cast<std::byte*>(w->window) + 8; });
  refused([](Work* w) { w->entries = nullptr; });
  refused([](Work* w) { w->statuses = nullptr; });
  pack(good);
  EXPECT_EQ(int{statuses_[0]}, NKV_STATUS_OK);
}

}  // namespace
}  // namespace nearkv::test
