// What kernels read out of pages, against the rows that went in and what the device itself reads.
#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "cuda/device_memory.hpp"
#include "support/page_commands.hpp"
#include "support/page_source.hpp"
#include "support/reference.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint8_t kRaw = NKV_ROW_FORM_RAW;
constexpr std::uint8_t kDelta4 = NKV_ROW_FORM_DELTA4;
constexpr std::uint8_t kNone = NKV_ROW_FORM_NONE;

/// bf16 rows among which a page has elements that DELTA4 keeps as exceptions.
PageSource source_with_exceptions(std::uint16_t head_dim, std::uint16_t value_dim) {
  PageSource source =
      page_source(make_kv(Shape::kGaussian, 192, head_dim, value_dim, 3), kDelta4, kDelta4);
  const auto put = [&](std::vector<std::byte>* rows, std::size_t element, std::uint16_t bits) {
    std::memcpy(rows->data() + 2 * element, &bits, sizeof(bits));
  };
  // The first and the last element of pages, neighbours, infinities, NaN, tiny numbers and zeros.
  put(&source.keys, 0, 0x7F80);
  put(&source.keys, 1, 0xFFC1);
  put(&source.keys, 64U * head_dim - 1, 0x0001);
  put(&source.keys, 64U * head_dim, 0x8003);
  put(&source.keys, 100U * head_dim + 5, 0x8000);
  put(&source.values, 64U * value_dim - 1, 0x0380);
  put(&source.values, 130U * value_dim + 9, 0xFF80);
  return source;
}

class PagesTest : public NearGpu {
 protected:
  /// All rows of a tensor, and the fault; rows are 16 bytes further apart than they are long.
  std::vector<std::byte> read(const nearkv_cuda_pages& pages, std::uint8_t tensor, std::size_t rows,
                              const std::vector<std::uint32_t>& ids = {}) {
    const std::size_t bytes = (tensor == NKV_TENSOR_KEYS ? pages.head_dim : pages.value_dim) *
                              std::size_t{nkv_element_bytes(pages.dtype)};
    const std::size_t pitch = bytes + 16;
    const std::span<std::byte> out = room<std::byte>(rows * pitch);
    nearkv_cuda_page_rows_args work{};
    if (!ids.empty()) work.ids = stored(ids).data();
    work.out = out.data();
    work.fault = fault_ = fault_word();
    work.rows = rows;
    work.out_row_bytes = pitch;
    work.tensor = tensor;
    EXPECT_EQ(nearkv_cuda_page_rows(gpu_, &pages, &work, nullptr), NKV_STATUS_OK) << error();
    synchronize();
    std::vector<std::byte> packed;
    for (std::size_t row = 0; row < rows; ++row) {
      const auto own = out.subspan(row * pitch, pitch);
      packed.insert(packed.end(), own.begin(), own.begin() + static_cast<std::ptrdiff_t>(bytes));
      EXPECT_TRUE(
          std::ranges::all_of(own.subspan(bytes), [](std::byte b) { return b == std::byte{0xA5}; }))
          << "written beyond row " << row;
    }
    return packed;
  }

  void check(const PageSource& source) {
    bench_.clear();
    const StoredList list = append(&bench_, source);
    ASSERT_EQ(list.completion.status, NKV_STATUS_OK);
    nearkv_cuda_pages pages = pages_of(list, source.dtype, source.k_form, source.v_form);
    pages.flags = source.key_scales ? NKV_PAGE_FLAG_KEY_SCALES : 0;
    std::vector<std::byte> keys;
    const std::size_t key_bytes = source.head_dim * std::size_t{nkv_element_bytes(source.dtype)};
    for (std::size_t token = 0; token < list.tokens; ++token) {
      const auto row =
          source.keys.begin() + static_cast<std::ptrdiff_t>(token * source.key_stride());
      keys.insert(keys.end(), row, row + static_cast<std::ptrdiff_t>(key_bytes));
    }
    EXPECT_EQ(read(pages, NKV_TENSOR_KEYS, list.tokens), keys);
    EXPECT_EQ(*fault_, ~std::uint64_t{0});
    if (source.v_form != kNone) {
      EXPECT_EQ(read(pages, NKV_TENSOR_VALUES, list.tokens), source.values);
      EXPECT_EQ(*fault_, ~std::uint64_t{0});
    }
  }

  /// What a kernel says of the list's rows after its first page was changed.
  std::uint8_t fault_after(const StoredList& list, const nearkv_cuda_pages& pages,
                           const std::function<void(nkv_page_header*, nkv_page_entry*)>& change) {
    auto* const entry = bench_.at<nkv_page_entry>(list.page_list);
    auto* const header =
        bench_.at<nkv_page_header>(std::uint64_t{entry->page} * NKV_PAGE_GRAIN_BYTES);
    const nkv_page_entry entry_before = *entry;
    const nkv_page_header header_before = *header;
    change(header, entry);
    const std::vector<std::byte> rows = read(pages, NKV_TENSOR_KEYS, 130);
    const std::uint64_t fault = *fault_;
    *entry = entry_before;
    if (entry->page * std::uint64_t{NKV_PAGE_GRAIN_BYTES} < bench_.window().size())
      *header = header_before;
    if (fault == ~std::uint64_t{0}) return NKV_STATUS_OK;
    EXPECT_EQ(fault >> 8, 0U) << "the first row";
    const std::size_t bytes = rows.size() / 130;
    EXPECT_TRUE(std::all_of(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(64 * bytes),
                            [](std::byte b) { return b == std::byte{0}; }));
    EXPECT_FALSE(std::all_of(rows.begin() + static_cast<std::ptrdiff_t>(64 * bytes), rows.end(),
                             [](std::byte b) { return b == std::byte{0}; }));
    return static_cast<std::uint8_t>(fault);
  }

  std::uint64_t* fault_ = nullptr;
};

TEST_F(PagesTest, DeltasAndExceptionsComeBackToTheBit) {
  for (const std::uint16_t dim : std::initializer_list<std::uint16_t>{16, 80, 128, 576}) {
    SCOPED_TRACE(dim);
    check(source_with_exceptions(dim, dim));
  }
  check(source_with_exceptions(128, 64));
}

TEST_F(PagesTest, RawRowsOfEveryType) {
  for (const std::uint8_t dtype :
       {NKV_DTYPE_BF16, NKV_DTYPE_FP16, NKV_DTYPE_FP8_E4M3, NKV_DTYPE_FP8_E5M2, NKV_DTYPE_INT8}) {
    SCOPED_TRACE(int{dtype});
    check(random_source(dtype, 80, 48, false, 128, 5));
    check(random_source(dtype, 128, 128, true, 64, 6));
  }
}

TEST_F(PagesTest, ValuesThatAreNotStoredAreTheLeadingChannelsOfTheKeys) {
  for (const std::uint8_t form : {kRaw, kDelta4}) {
    bench_.clear();
    PageSource source = source_with_exceptions(576, 512);
    if (form == kRaw) source = random_source(NKV_DTYPE_BF16, 576, 512, false, 192, 9);
    source.k_form = form;
    source.v_form = kNone;
    const StoredList list = append(&bench_, source);
    ASSERT_EQ(list.completion.status, NKV_STATUS_OK);
    const nearkv_cuda_pages pages = pages_of(list, NKV_DTYPE_BF16, form, kNone);
    const std::vector<std::byte> values = read(pages, NKV_TENSOR_VALUES, list.tokens);
    for (std::size_t token = 0; token < list.tokens; ++token) {
      ASSERT_TRUE(std::equal(values.begin() + static_cast<std::ptrdiff_t>(token * 1024),
                             values.begin() + static_cast<std::ptrdiff_t>((token + 1) * 1024),
                             source.keys.begin() + static_cast<std::ptrdiff_t>(token * 1152)))
          << token;
    }
  }
}

TEST_F(PagesTest, RawPagesMayBeAmongThoseOfAPool) {
  const PageSource compact =
      page_source(make_kv(Shape::kGaussian, 64, 64, 64, 1), kDelta4, kDelta4);
  const PageSource raw = random_source(NKV_DTYPE_BF16, 64, 64, false, 64, 2);
  const StoredList first = append(&bench_, compact);
  const StoredList second = append(&bench_, raw);
  std::vector<nkv_page_entry> entries = {*bench_.at<nkv_page_entry>(first.page_list),
                                         *bench_.at<nkv_page_entry>(second.page_list)};
  StoredList both = first;
  both.page_list = bench_.store(std::span<const nkv_page_entry>(entries));
  both.tokens = 128;
  const nearkv_cuda_pages pages = pages_of(both, NKV_DTYPE_BF16, kDelta4, kDelta4);
  std::vector<std::byte> values = compact.values;
  values.insert(values.end(), raw.values.begin(), raw.values.end());
  EXPECT_EQ(read(pages, NKV_TENSOR_VALUES, 128), values);
}

TEST_F(PagesTest, RowsOfAnyTokens) {
  const PageSource source = source_with_exceptions(80, 80);
  const StoredList list = append(&bench_, source);
  const nearkv_cuda_pages pages = pages_of(list, NKV_DTYPE_BF16, kDelta4, kDelta4);
  const std::vector<std::uint32_t> ids = {191, 0, 0, 63, 64, 130, 100};
  const std::vector<std::byte> rows = read(pages, NKV_TENSOR_VALUES, ids.size(), ids);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_TRUE(std::equal(rows.begin() + static_cast<std::ptrdiff_t>(i * 160),
                           rows.begin() + static_cast<std::ptrdiff_t>((i + 1) * 160),
                           source.values.begin() + static_cast<std::ptrdiff_t>(ids[i] * 160)))
        << i;
  }
  const std::vector<std::byte> beyond = read(pages, NKV_TENSOR_VALUES, 3, {5, 192, 4'000'000'000});
  EXPECT_EQ(*fault_, std::uint64_t{1} << 8 | NKV_STATUS_BAD_FIELD);
  EXPECT_TRUE(std::all_of(beyond.begin() + 160, beyond.end(),
                          [](std::byte b) { return b == std::byte{0}; }));
}

TEST_F(PagesTest, APageThatMayNotBeReadIsToldAndItsRowsAreZero) {
  const StoredList list =
      append(&bench_, page_source(make_kv(Shape::kBiased, 192, 64, 64, 4), kDelta4, kDelta4));
  const nearkv_cuda_pages pages = pages_of(list, NKV_DTYPE_BF16, kDelta4, kDelta4);
  using Header = nkv_page_header;
  using Entry = nkv_page_entry;
  const auto fault = [&](const std::function<void(Header*, Entry*)>& change) {
    return int{fault_after(list, pages, change)};
  };
  EXPECT_EQ(fault([](Header*, Entry*) {}), NKV_STATUS_OK);
  EXPECT_EQ(fault([](Header*, Entry* e) { ++e->generation; }), NKV_STATUS_STALE_PAGE);
  EXPECT_EQ(fault([](Header* h, Entry*) { h->magic = 0; }), NKV_STATUS_STALE_PAGE);
  EXPECT_EQ(fault([](Header* h, Entry*) { h->state = NKV_PAGE_STATE_FREE; }),
            NKV_STATUS_STALE_PAGE);
  EXPECT_EQ(fault([](Header* h, Entry*) { ++h->tenant; }), NKV_STATUS_BAD_PAGE);
  EXPECT_EQ(fault([](Header* h, Entry*) { h->magic ^= 1; }), NKV_STATUS_BAD_PAGE);
  EXPECT_EQ(fault([](Header* h, Entry*) { h->head_dim = 80; }), NKV_STATUS_BAD_PAGE);
  EXPECT_EQ(fault([](Header* h, Entry*) { h->k_form = kRaw; }), NKV_STATUS_BAD_PAGE);
  EXPECT_EQ(fault([](Header* h, Entry*) { h->dtype = NKV_DTYPE_FP16; }), NKV_STATUS_BAD_PAGE);
  EXPECT_EQ(fault([](Header* h, Entry*) { h->k_exceptions = 200; }), NKV_STATUS_BAD_PAGE);
  EXPECT_EQ(fault([](Header* h, Entry*) { h->flags = NKV_PAGE_FLAG_KEY_SCALES; }),
            NKV_STATUS_BAD_PAGE);
  EXPECT_EQ(fault([](Header* h, Entry*) { h->codec = NKV_CODEC_INT8; }), NKV_STATUS_COLD_PAGE);
  EXPECT_EQ(fault([](Header*, Entry* e) { e->page = ~0U; }), NKV_STATUS_ADDRESS_FAULT);
}

TEST_F(PagesTest, OfAPageThatMayNotBeReadPlanesAndDigestsAreZeroAndOthersAreTheirs) {
  const StoredList list =
      append(&bench_, page_source(make_kv(Shape::kBiased, 192, 64, 64, 4), kDelta4, kDelta4));
  const nearkv_cuda_pages pages = pages_of(list, NKV_DTYPE_BF16, kDelta4, kDelta4);
  auto* const entries = bench_.at<nkv_page_entry>(list.page_list);
  const nkv_page_entry sound = entries[1];
  for (const std::uint8_t status :
       {NKV_STATUS_STALE_PAGE, NKV_STATUS_ADDRESS_FAULT, NKV_STATUS_BAD_PAGE}) {
    SCOPED_TRACE(int{status});
    auto* const header =
        bench_.at<nkv_page_header>(std::uint64_t{sound.page} * NKV_PAGE_GRAIN_BYTES);
    if (status == NKV_STATUS_STALE_PAGE) ++entries[1].generation;
    if (status == NKV_STATUS_ADDRESS_FAULT) entries[1].page = ~0U;
    if (status == NKV_STATUS_BAD_PAGE) header->head_dim = 80;
    const std::uint64_t named = std::uint64_t{1} << 8 | status;

    const std::span<std::uint16_t> keys = room<std::uint16_t>(192 * 64);
    const nearkv_cuda_page_planes_args planes{keys.data(), fault_word(), 4};
    ASSERT_EQ(nearkv_cuda_page_planes(gpu_, &pages, &planes, nullptr), NKV_STATUS_OK) << error();
    const std::span<std::uint16_t> digests = room<std::uint16_t>(3 * 64);
    const std::span<std::int16_t> exponents = room<std::int16_t>(3);
    const nearkv_cuda_digests_args collect{digests.data(), exponents.data(), fault_word()};
    ASSERT_EQ(nearkv_cuda_digests(gpu_, &pages, &collect, nullptr), NKV_STATUS_OK) << error();
    synchronize();
    header->head_dim = 64;
    entries[1] = sound;

    EXPECT_EQ(*planes.fault, named);
    EXPECT_EQ(*collect.fault, named);
    EXPECT_EQ(exponents[1], 0);
    const auto is_zero = [](std::uint16_t bits) { return bits == 0; };
    for (const std::size_t page : {0U, 1U, 2U}) {
      EXPECT_EQ(std::ranges::all_of(keys.subspan(page * 64 * 64, 64 * 64), is_zero), page == 1);
      EXPECT_EQ(std::ranges::all_of(digests.subspan(page * 64, 64), is_zero), page == 1);
    }
  }
}

TEST_F(PagesTest, APageThatDoesNotEndInTheWindowIsNotRead) {
  const StoredList list =
      append(&bench_, page_source(make_kv(Shape::kBiased, 64, 64, 64, 4), kDelta4, kDelta4));
  nearkv_cuda_pages pages = pages_of(list, NKV_DTYPE_BF16, kDelta4, kDelta4);
  const std::uint64_t page = bench_.at<nkv_page_entry>(list.page_list)->page;
  pages.window_bytes = page * NKV_PAGE_GRAIN_BYTES + list.page_bytes - 1;
  (void)read(pages, NKV_TENSOR_KEYS, 64);
  EXPECT_EQ(*fault_, NKV_STATUS_ADDRESS_FAULT);
}

TEST_F(PagesTest, PlanesAreTheMiddlesThatTheDeviceReads) {
  for (const Shape shape : {Shape::kGaussian, Shape::kOutliers, Shape::kSparse}) {
    for (const std::uint16_t dim : std::initializer_list<std::uint16_t>{16, 80, 128}) {
      bench_.clear();
      PageSource source = page_source(make_kv(shape, 128, dim, dim, 8), kRaw, kRaw);
      if (dim == 16) source = random_source(NKV_DTYPE_BF16, dim, dim, false, 128, 4);  // Any size.
      const StoredList list = append(&bench_, source);
      const nearkv_cuda_pages pages = pages_of(list, NKV_DTYPE_BF16, kRaw, kRaw);
      for (std::uint8_t planes = 1; planes <= NKV_KEY_PLANES; ++planes) {
        const std::size_t bytes = list.tokens * dim * 2;
        nkv_read_command command{};
        command.opcode = NKV_OPCODE_READ;
        command.planes = planes;
        command.count = static_cast<std::uint32_t>(list.tokens);
        command.page_list = list.page_list;
        command.result = bench_.allocate(bytes);
        ASSERT_EQ(bench_.run(command).status, NKV_STATUS_OK);
        const std::span<std::byte> out = room<std::byte>(bytes);
        const nearkv_cuda_page_planes_args work{out.data(), fault_word(), planes};
        ASSERT_EQ(nearkv_cuda_page_planes(gpu_, &pages, &work, nullptr), NKV_STATUS_OK) << error();
        synchronize();
        EXPECT_TRUE(std::ranges::equal(out, std::span(bench_.at<std::byte>(command.result), bytes)))
            << "dim " << dim << ", planes " << int{planes};
        EXPECT_EQ(*work.fault, ~std::uint64_t{0});
      }
    }
  }
}

class BoundsTest : public PagesTest {
 protected:
  /// Bounds [rows][pages] of queries over a list.
  std::vector<float> bounds(const StoredList& list, const std::vector<std::uint16_t>& queries) {
    const std::size_t rows = queries.size() / list.head_dim;
    const nearkv_cuda_pages pages = pages_of(list, NKV_DTYPE_BF16, kRaw, kRaw);
    const auto digests = room<std::uint16_t>(list.pages() * list.head_dim);
    const auto exponents = room<std::int16_t>(list.pages());
    const nearkv_cuda_digests_args collect{digests.data(), exponents.data(), fault_word()};
    EXPECT_EQ(nearkv_cuda_digests(gpu_, &pages, &collect, nullptr), NKV_STATUS_OK) << error();
    const std::span<float> out = room<float>(rows * list.pages());
    nearkv_cuda_bounds_args work{};
    work.query = stored(queries).data();
    work.digests = digests.data();
    work.exponents = exponents.data();
    work.bounds = out.data();
    work.rows = static_cast<std::uint32_t>(rows);
    work.pages = static_cast<std::uint32_t>(list.pages());
    work.head_dim = static_cast<std::uint32_t>(list.head_dim);
    EXPECT_EQ(nearkv_cuda_bounds(gpu_, &work, nullptr), NKV_STATUS_OK) << error();
    synchronize();
    EXPECT_EQ(*collect.fault, ~std::uint64_t{0});
    return {out.begin(), out.end()};
  }
};

TEST_F(BoundsTest, NoKeyOfAPageScoresMore) {
  for (const Shape shape : {Shape::kGaussian, Shape::kBiased, Shape::kOutliers, Shape::kSparse}) {
    for (const std::size_t dim : {16U, 80U, 128U}) {
      bench_.clear();
      const KvData data = make_kv(shape, 40 * 64, dim, dim, 6);
      const StoredList list = append(&bench_, page_source(data, kRaw, kRaw));
      ASSERT_EQ(list.completion.status, NKV_STATUS_OK);
      const std::size_t rows = dim == 16 ? 1 : dim == 80 ? 3 : 11;
      const std::vector<std::uint16_t> queries = make_queries(data, rows, 3, 7);
      const std::vector<float> found = bounds(list, queries);
      double looseness = 0;
      for (std::size_t row = 0; row < rows; ++row) {
        for (std::size_t page = 0; page < list.pages(); ++page) {
          double greatest = -1e300;
          double magnitude = 0;
          for (std::size_t t = page * 64; t < page * 64 + 64; ++t) {
            double score = 0;
            double size = 0;
            for (std::size_t c = 0; c < dim; ++c) {
              const double term = double{from_bf16(queries[row * dim + c])} * data.key(t, c);
              score += term;
              size += std::abs(term);
            }
            greatest = std::max(greatest, score);
            magnitude = std::max(magnitude, size);
          }
          const float bound = found[row * list.pages() + page];
          ASSERT_GE(bound, greatest) << "row " << row << ", page " << page;
          looseness += (bound - greatest) / (magnitude + 1e-30);
        }
      }
      // Bounds of a page's ranges: of use only if they are of the scores' own size.
      EXPECT_LT(looseness / static_cast<double>(rows * list.pages()), 8) << int(shape);
    }
  }
}

TEST_F(BoundsTest, OneChannelsBoundIsTheEndOfItsRange) {
  constexpr std::size_t kDim = 16;
  constexpr std::uint16_t kOne = 0x3F80;
  const KvData data = make_kv(Shape::kGaussian, 40 * 64, kDim, kDim, 11);
  const StoredList list = append(&bench_, page_source(data, kRaw, kRaw));
  std::vector<std::uint16_t> queries(2 * kDim * kDim);
  for (std::size_t row = 0; row < 2 * kDim; ++row) {
    queries[row * kDim + row / 2] = static_cast<std::uint16_t>(kOne | (row % 2 << 15));
  }
  const std::vector<float> found = bounds(list, queries);
  for (std::size_t row = 0; row < 2 * kDim; ++row) {
    const float sign = row % 2 == 0 ? 1.0F : -1.0F;
    for (std::size_t page = 0; page < list.pages(); ++page) {
      float least = INFINITY;
      float greatest = -INFINITY;
      for (std::size_t t = page * 64; t < page * 64 + 64; ++t) {
        least = std::min(least, sign * data.key(t, row / 2));
        greatest = std::max(greatest, sign * data.key(t, row / 2));
      }
      const float bound = found[row * list.pages() + page];
      ASSERT_GE(bound, greatest) << "row " << row << ", page " << page;
      ASSERT_LE(bound, greatest + 0.3F * (greatest - least)) << "row " << row << ", page " << page;
    }
  }
}

TEST_F(BoundsTest, NumbersOfAnySizeGiveNoNaN) {
  PageSource source = random_source(NKV_DTYPE_BF16, 64, 64, false, 128, 3);
  const StoredList list = append(&bench_, source);
  const std::vector<std::uint16_t> queries(64, 0x7F7F);
  for (const float bound : bounds(list, queries)) {
    EXPECT_FALSE(std::isnan(bound));
    EXPECT_GT(bound, 1e38F);
  }
}

TEST_F(PagesTest, RefusesShapesAndPointersThatNoPageHas) {
  const StoredList list =
      append(&bench_, page_source(make_kv(Shape::kBiased, 64, 64, 64, 4), kDelta4, kDelta4));
  const nearkv_cuda_pages good = pages_of(list, NKV_DTYPE_BF16, kDelta4, kDelta4);
  const std::span<std::byte> out = room<std::byte>(64 * 128);
  const nearkv_cuda_page_rows_args work{nullptr, out.data(), fault_word(),
                                        64,      128,        NKV_TENSOR_KEYS};
  const auto refused = [&](const std::function<void(nearkv_cuda_pages*)>& spoil) {
    nearkv_cuda_pages pages = good;
    spoil(&pages);
    EXPECT_EQ(nearkv_cuda_page_rows(gpu_, &pages, &work, nullptr), NKV_STATUS_BAD_ARGUMENT);
    EXPECT_NE(error(), "");
  };
  using Pages = nearkv_cuda_pages;
  refused([](Pages* p) { p->head_dim = 24; });
  refused([](Pages* p) { p->value_dim = 0; });
  refused([](Pages* p) { p->dtype = NKV_DTYPE_FP32; });
  refused([](Pages* p) { p->dtype = NKV_DTYPE_FP16; });
  refused([](Pages* p) { p->k_form = kNone; });
  refused([](Pages* p) { p->flags = 0x80; });
  refused([](Pages* p) { p->window = nullptr; });
  refused([](Pages* p) { p->window = static_cast<const std::byte*>(p->window) + 8; });
  refused([](Pages* p) { p->count = 0; });
  using Work = nearkv_cuda_page_rows_args;
  const auto refused_work = [&](const std::function<void(Work*)>& spoil) {
    Work spoiled = work;
    spoil(&spoiled);
    EXPECT_EQ(nearkv_cuda_page_rows(gpu_, &good, &spoiled, nullptr), NKV_STATUS_BAD_ARGUMENT);
  };
  refused_work([](Work* w) { w->out_row_bytes = 112; });
  refused_work([](Work* w) { w->out_row_bytes = 136; });
  refused_work([](Work* w) { w->tensor = NKV_TENSOR_BOTH; });
  refused_work([](Work* w) { w->fault = nullptr; });
  refused_work([&](Work* w) { w->out = out.data() + 8; });
  EXPECT_EQ(nearkv_cuda_page_rows(gpu_, &good, &work, nullptr), NKV_STATUS_OK) << error();
}

}  // namespace
}  // namespace nearkv::test
