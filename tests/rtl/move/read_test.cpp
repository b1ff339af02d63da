// nkv_read against the model's read and gather: rows of every form and type, to the byte; and that
// a command that fails writes nothing.
#include <gtest/gtest.h>

#include <array>

#include "read_commands.hpp"

namespace nearkv::rtl_test {
namespace {

TEST(ReadTest, AnyRowsOverAnyMemory) {
  std::array<unsigned, 256> statuses{};
  for (const emulator::MemoryTiming& timing : kTimings) {
    MoveUnit unit(timing);
    for (unsigned number = 0; number < 40 && !testing::Test::HasFailure(); number += case_step()) {
      test::Random random = test::case_random(1000 + number);
      SCOPED_TRACE(test::case_name(1000 + number));
      unit.set_pace({.reads = kPaces[number % 3], .writes = kPaces[number / 3 % 3]});
      const Listed listed = random_list(unit, random);
      ++statuses[expect_read(unit, read_of(unit, listed, random))];
      if (!testing::Test::HasFailure()) {
        ++statuses[expect_gather(unit, gather_of(unit, listed, random))];
      }
    }
  }
  EXPECT_GT(statuses[NKV_STATUS_OK], 180U / case_step());
  // Values where there are none, to which fewer cases need not come.
  if (case_step() == 1) {
    EXPECT_GT(statuses[NKV_STATUS_BAD_PAGE], 0U);
  }
}

TEST(ReadTest, EveryDimensionInEveryForm) {
  MoveUnit unit;
  test::Random random = test::case_random(2);
  for (unsigned dim = 16; dim <= 128 && !testing::Test::HasFailure(); dim += 16) {
    for (const std::uint8_t form : {NKV_ROW_FORM_RAW, NKV_ROW_FORM_DELTA4}) {
      for (const std::uint8_t dtype : {NKV_DTYPE_BF16, NKV_DTYPE_INT8}) {
        AppendShape shape{.dtype = dtype};
        if (dtype == NKV_DTYPE_BF16) shape.k_form = shape.v_form = form;
        shape.head_dim = static_cast<std::uint16_t>(dim);
        shape.value_dim = static_cast<std::uint16_t>(144 - dim);
        SCOPED_TRACE(shape.name());
        unit.fill_with_garbage(random);
        Listed listed{
            .shape = shape, .entries = store_pages(unit, shape, 2, random), .page_list = 0};
        if (listed.entries.empty()) continue;
        list_pages(unit, &listed);
        for (const std::uint8_t tensor : {NKV_TENSOR_KEYS, NKV_TENSOR_VALUES, NKV_TENSOR_BOTH}) {
          nkv_read_command read = read_of(unit, listed, random);
          read.tensor = tensor;
          expect_read(unit, read);
          nkv_gather_command gather = gather_of(unit, listed, random);
          gather.tensor = tensor;
          expect_gather(unit, gather);
        }
      }
    }
  }
}

// In any order, twice for one element, beyond the page's elements, or not counted.
TEST(ReadTest, ExceptionsThatNoAppendWrote) {
  MoveUnit unit;
  test::Random random = test::case_random(3);
  for (unsigned number = 0; number < 40 && !testing::Test::HasFailure(); ++number) {
    AppendShape shape = random_append_shape(random);
    shape.dtype = NKV_DTYPE_BF16;
    shape.any_patterns = false;
    shape.k_form = NKV_ROW_FORM_DELTA4;
    if (shape.v_form == NKV_ROW_FORM_RAW) shape.v_form = NKV_ROW_FORM_DELTA4;
    SCOPED_TRACE(shape.name());
    unit.fill_with_garbage(random);
    Listed listed{.shape = shape, .entries = store_pages(unit, shape, 3, random), .page_list = 0};
    if (listed.entries.empty()) continue;
    list_pages(unit, &listed);
    for (const nkv_page_entry& entry : listed.entries) {
      ForgedPage page(unit, entry);
      for (const nkv_page_array array :
           {NKV_PAGE_ARRAY_K_EXCEPTIONS, NKV_PAGE_ARRAY_V_EXCEPTIONS}) {
        if (page.bytes(array) == 0) continue;
        const std::uint32_t dim =
            array == NKV_PAGE_ARRAY_K_EXCEPTIONS ? page.header.head_dim : page.header.value_dim;
        std::vector<nkv_row_exception> exceptions(NKV_EXCEPTIONS);
        for (nkv_row_exception& exception : exceptions) {
          const std::uint32_t most = random() % 4 == 0 ? 0xFFFF : NKV_PAGE_TOKENS * dim - 1;
          exception.element = static_cast<std::uint16_t>(test::pick(random, 0, most));
          exception.bits = static_cast<std::uint16_t>(random());
        }
        exceptions[11].element = exceptions[4].element;
        page.put(array, exceptions);
      }
      page.header.k_exceptions = static_cast<std::uint8_t>(test::pick(random, 0, NKV_EXCEPTIONS));
      page.header.v_exceptions = static_cast<std::uint8_t>(test::pick(random, 0, NKV_EXCEPTIONS));
      page.seal();
    }
    expect_read(unit, read_of(unit, listed, random));
    expect_gather(unit, gather_of(unit, listed, random));
  }
}

TEST(ReadTest, DamageAnywhereInAPage) {
  MoveUnit unit;
  test::Random random = test::case_random(4);
  std::array<unsigned, 256> statuses{};
  for (unsigned number = 0; number < 150 && !testing::Test::HasFailure(); number += case_step()) {
    SCOPED_TRACE("round " + std::to_string(number));
    const Listed listed = random_list(unit, random);
    const nkv_page_entry& entry =
        listed
            .entries[test::pick(random, 0, static_cast<std::uint32_t>(listed.entries.size()) - 1)];
    damage(unit, entry, number, random);
    ++statuses[expect_read(unit, read_of(unit, listed, random))];
    ++statuses[expect_gather(unit, gather_of(unit, listed, random))];
  }
  EXPECT_GT(statuses[NKV_STATUS_CORRUPT], 40U / case_step());
  EXPECT_GT(statuses[NKV_STATUS_OK], 40U / case_step());
}

TEST(ReadTest, CommandsAndListsThatAreWrong) {
  MoveUnit unit;
  test::Random random = test::case_random(5);
  std::array<unsigned, 256> statuses{};
  for (unsigned number = 0; number < 140 && !testing::Test::HasFailure(); ++number) {
    SCOPED_TRACE("round " + std::to_string(number));
    Listed listed = random_list(unit, random);
    const std::size_t page =
        test::pick(random, 0, static_cast<std::uint32_t>(listed.entries.size()) - 1);
    const std::uint64_t entry_at = listed.page_list + page * sizeof(nkv_page_entry);
    nkv_page_entry entry = listed.entries[page];
    nkv_read_command read = read_of(unit, listed, random);
    nkv_gather_command gather = gather_of(unit, listed, random);
    switch (number % 7) {
      case 0:
        entry.generation ^= 1;
        break;
      case 1:
        entry.page = static_cast<std::uint32_t>(random());
        break;
      case 2: {  // Another type and other sizes.
        Listed other = random_list(unit, random);
        entry = other.entries[0];
        break;
      }
      case 3:
        read.result = gather.result = MoveUnit::kWindowBytes - 64 * test::pick(random, 0, 40);
        break;
      case 4:
        read.page_list = gather.page_list = MoveUnit::kWindowBytes - 8 * test::pick(random, 0, 2);
        break;
      case 5:
        unit.put(gather.ids + 4 * test::pick(random, 0, gather.count - 1),
                 random() % 2 == 0 ? listed.tokens() : 0xFFFFFFFF);
        break;
      default:
        entry.k_exponent ^= 1;
    }
    if (number % 7 == 2) {  // The list that was there before is gone.
      Listed two = random_list(unit, random);
      const Listed one = two;
      for (const nkv_page_entry& more : store_pages(unit, random_append_shape(random), 1, random)) {
        two.entries.insert(two.entries.begin() + static_cast<std::ptrdiff_t>(page % 2), more);
      }
      list_pages(unit, &two);
      read = read_of(unit, two, random);
      gather = gather_of(unit, two, random);
    } else {
      unit.put(entry_at, entry);
    }
    ++statuses[expect_read(unit, read)];
    ++statuses[expect_gather(unit, gather)];
  }
  for (const int status : {NKV_STATUS_OK, NKV_STATUS_STALE_PAGE, NKV_STATUS_ADDRESS_FAULT,
                           NKV_STATUS_BAD_PAGE, NKV_STATUS_BAD_FIELD}) {
    EXPECT_GT(statuses[static_cast<std::size_t>(status)], 0U) << "status " << status;
  }
}

/// A burst or two away from the beginning or the end of what the command reads.
std::uint64_t beside(std::uint64_t begin, std::uint64_t end, std::uint64_t rows_bytes,
                     test::Random& random) {
  const std::uint64_t step = NKV_BURST_BYTES * test::pick(random, 0, 3);
  const std::uint64_t at = random() % 2 == 0 ? end + 64 - step : begin + 64 - rows_bytes - step;
  return at / NKV_BURST_BYTES * NKV_BURST_BYTES;
}

TEST(ReadTest, RowsThatWouldLieOnWhatIsRead) {
  MoveUnit unit;
  test::Random random = test::case_random(7);
  std::array<unsigned, 256> statuses{};
  for (unsigned number = 0; number < 120 && !testing::Test::HasFailure(); number += case_step()) {
    SCOPED_TRACE("round " + std::to_string(number));
    const Listed listed = random_list(unit, random);
    const auto pages = static_cast<std::uint32_t>(listed.entries.size());
    nkv_read_command read = read_of(unit, listed, random);
    nkv_gather_command gather = gather_of(unit, listed, random);
    read.tensor = gather.tensor = NKV_TENSOR_KEYS;
    const std::uint64_t row_bytes =
        std::uint64_t{listed.shape.head_dim} * nkv_element_bytes(listed.shape.dtype);
    const auto place = [&](std::uint64_t begin, std::uint64_t end) {
      read.result = beside(begin, end, read.count * row_bytes, random);
      gather.result = beside(begin, end, gather.count * row_bytes, random);
    };
    switch (number % 3) {
      case 0: {
        const std::uint64_t page = place_of(listed.entries[test::pick(random, 0, pages - 1)]);
        place(page, page + listed.shape.page_bytes());
        break;
      }
      case 1:
        place(listed.page_list, listed.page_list + pages * sizeof(nkv_page_entry));
        break;
      default:
        place(gather.ids, gather.ids + 4ULL * gather.count);
    }
    ++statuses[expect_read(unit, read)];
    if (!testing::Test::HasFailure()) ++statuses[expect_gather(unit, gather)];
  }
  EXPECT_GT(statuses[NKV_STATUS_OK], 20U / case_step());
  EXPECT_GT(statuses[NKV_STATUS_BAD_FIELD], 40U / case_step());
}

TEST(ReadTest, PoisonInWhatIsUsed) {
  MoveUnit unit;
  test::Random random = test::case_random(6);
  for (unsigned number = 0; number < 30 && !testing::Test::HasFailure(); ++number) {
    unit.set_faults({});
    const Listed listed = random_list(unit, random);
    nkv_gather_command gather = gather_of(unit, listed, random);
    gather.tensor = NKV_TENSOR_KEYS;
    const std::uint32_t token = unit.get<std::uint32_t>(gather.ids);
    const std::uint64_t places[] = {gather.ids, gather.page_list,
                                    place_of(listed.entries[token / NKV_PAGE_TOKENS]),
                                    place_of(listed.entries[token / NKV_PAGE_TOKENS]) + 64};
    const std::vector<std::byte> before(unit.window().begin(), unit.window().end());
    unit.set_faults({.poisoned = {MoveUnit::kWindowBase + places[number % 4] / 64 * 64}});
    EXPECT_EQ(int{unit.run(gather, &model::gather).verdict.status}, NKV_STATUS_POISON);
    EXPECT_TRUE(std::ranges::equal(unit.window(), before));
  }
}

/// Cycles over the bursts that are read.
double cycles_per_burst(MoveUnit& unit, const char* name) {
  const double bursts = static_cast<double>(unit.bursts_read());
  const double ratio = static_cast<double>(unit.run_cycles()) / bursts;
  std::printf("  %s: %.0f bursts read, %llu written, %.3f cycles per burst read\n", name, bursts,
              static_cast<unsigned long long>(unit.bursts_written()), ratio);
  return ratio;
}

TEST(ReadTest, CyclesPerBurst) {
  MoveUnit unit({.latency_cycles = 60});
  test::Random random = test::case_random(8);
  for (const std::uint8_t form : {NKV_ROW_FORM_RAW, NKV_ROW_FORM_DELTA4}) {
    const AppendShape shape{.k_form = form, .v_form = form};
    unit.fill_with_garbage(random);
    Listed listed{.shape = shape, .entries = store_pages(unit, shape, 16, random), .page_list = 0};
    ASSERT_FALSE(listed.entries.empty());
    list_pages(unit, &listed);
    nkv_read_command read = read_of(unit, listed, random);
    read.first = 0;
    read.count = listed.tokens();
    read.tensor = NKV_TENSOR_BOTH;
    read.result = unit.allocate(room_for(listed, read.count), 64);
    expect_read(unit, read);
    EXPECT_LE(cycles_per_burst(unit, form == NKV_ROW_FORM_RAW ? "READ RAW" : "READ DELTA4"), 1.4);
    nkv_gather_command gather = gather_of(unit, listed, random);
    gather.tensor = NKV_TENSOR_BOTH;
    expect_gather(unit, gather);
    cycles_per_burst(unit, form == NKV_ROW_FORM_RAW ? "GATHER RAW" : "GATHER DELTA4");
  }
}

}  // namespace
}  // namespace nearkv::rtl_test
