// What nkv_append leaves behind when places are wrong, rows do not fit, memory is poisoned, or
// everything stops in the middle: no page that can be found and is not whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "append_unit.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr std::uint32_t kPages = 4;

class AppendFaultsTest : public testing::Test {
 protected:
  nkv_append_command prepare(const AppendShape& shape = {}) {
    shape_ = shape;
    command_ = unit_.prepare(shape, kPages, random_);
    return command_;
  }

  nkv_page_entry entry(std::uint32_t page) {
    nkv_page_entry entry{};
    std::memcpy(&entry, &unit_.window()[command_.page_list + page * sizeof(entry)], sizeof(entry));
    return entry;
  }

  void move_page(std::uint32_t page, std::uint64_t address) {
    nkv_page_entry moved = entry(page);
    moved.page = static_cast<std::uint32_t>(address / NKV_PAGE_GRAIN_BYTES);
    unit_.put(command_.page_list + page * sizeof(moved), moved);
  }

  std::uint64_t place(std::uint32_t page) {
    return std::uint64_t{entry(page).page} * NKV_PAGE_GRAIN_BYTES;
  }

  bool can_be_found(std::uint32_t page) {
    std::uint32_t magic = 0;
    std::memcpy(&magic, &unit_.window()[place(page)], sizeof(magic));
    return magic == NKV_PAGE_MAGIC;
  }

  /// Refused, and nothing has changed but what lies where pages were to go.
  void expect_refused(const model::Outcome& outcome, std::uint8_t status, std::uint64_t detail) {
    EXPECT_EQ(int{outcome.verdict.status}, int{status});
    EXPECT_EQ(outcome.verdict.detail, detail);
    EXPECT_EQ(outcome.count, 0U);
    for (std::uint32_t page = 0; page < kPages; ++page) {
      EXPECT_FALSE(can_be_found(page)) << "page " << page;
      const std::span<std::byte> wrote = unit_.window().subspan(place(page), shape_.page_bytes());
      std::ranges::copy(wrote, unit_.models_window().subspan(place(page)).begin());
    }
    EXPECT_TRUE(std::ranges::equal(unit_.window(), unit_.models_window()));
  }

  AppendUnit unit_;
  test::Random random_ = test::case_random(1);
  AppendShape shape_;
  nkv_append_command command_{};
};

TEST_F(AppendFaultsTest, PagesThatReachBeyondTheWindow) {
  const std::uint64_t end = AppendUnit::kWindowBytes;
  for (const std::uint64_t address :
       {end, end - NKV_PAGE_GRAIN_BYTES, std::uint64_t{0xFFFFFFFF} * NKV_PAGE_GRAIN_BYTES}) {
    for (const std::uint32_t page : {0U, 2U, 3U}) {
      const nkv_append_command command = prepare();
      move_page(page, address);
      expect_models(unit_, unit_.run(command));
      EXPECT_EQ(unit_.models_outcome().verdict.status, NKV_STATUS_ADDRESS_FAULT);
    }
  }
  const nkv_append_command command = prepare();
  move_page(1, end - shape_.page_bytes());
  expect_models(unit_, unit_.run(command));
  EXPECT_TRUE(unit_.models_outcome().verdict.ok());
}

TEST_F(AppendFaultsTest, PagesOnEachOtherOrOnTheirSource) {
  prepare();
  const std::uint64_t size = shape_.page_bytes();
  for (const std::int64_t distance : {std::int64_t{0}, std::int64_t{256}, std::int64_t{-256}}) {
    for (const std::int64_t away : {std::int64_t{0}, static_cast<std::int64_t>(size)}) {
      const nkv_append_command command = prepare();
      const auto at = [&](std::uint64_t to) {
        return static_cast<std::uint64_t>(static_cast<std::int64_t>(to) + distance + away);
      };
      for (const std::uint64_t target : {at(place(0)), at(place(2)), at(command.keys) / 256 * 256,
                                         at(command.values) / 256 * 256}) {
        prepare();
        move_page(3, target);
        expect_models(unit_, unit_.run(command_));
        if (HasFailure()) return;
      }
    }
  }
}

// A list that a page is written over is still what it was when it was read.
TEST_F(AppendFaultsTest, APageOnThePageList) {
  for (const std::uint32_t page : {0U, 3U}) {
    prepare();
    const std::uint64_t room = unit_.allocate(shape_.page_bytes(), NKV_PAGE_GRAIN_BYTES);
    const std::uint64_t list = room + 24;
    for (std::uint32_t i = 0; i < kPages; ++i) {
      unit_.put(list + i * sizeof(nkv_page_entry), entry(i));
    }
    command_.page_list = list;
    move_page(page, room);
    expect_models(unit_, unit_.run(command_));
    EXPECT_TRUE(unit_.models_outcome().verdict.ok());
  }
}

// More entries than are compared at once, two of which meet.
TEST_F(AppendFaultsTest, OneCollisionAmongManyPages) {
  const AppendShape small{.dtype = NKV_DTYPE_INT8, .head_dim = 16, .value_dim = 16};
  for (unsigned number = 0; number < 24; ++number) {
    constexpr std::uint32_t kMany = 50;
    command_ = unit_.prepare(small, kMany, random_);
    const std::uint32_t first = test::pick(random_, 0, kMany - 1);
    const std::uint32_t second = test::pick(random_, 0, kMany - 1);
    move_page(first, place(second) + NKV_PAGE_GRAIN_BYTES * test::pick(random_, 0, 1));
    expect_models(unit_, unit_.run(command_));
    if (HasFailure()) return;
  }
}

TEST_F(AppendFaultsTest, RowsThatDelta4DoesNotHold) {
  for (const bool keys : {false, true}) {
    for (std::uint32_t page = 0; page < kPages; ++page) {
      const nkv_append_command command =
          prepare({.k_form = NKV_ROW_FORM_DELTA4, .v_form = NKV_ROW_FORM_DELTA4});
      const std::uint64_t tensor = keys ? command.keys : command.values;
      const std::vector<std::uint16_t> nothing_finite(20, 0x7F80);
      unit_.put_bytes(tensor + std::uint64_t{page} * NKV_PAGE_TOKENS * command.key_stride,
                      std::as_bytes(std::span(nothing_finite)));
      expect_refused(unit_.run(command), NKV_STATUS_PAGE_OVERFLOW, page);
      EXPECT_EQ(unit_.models_outcome().verdict.status, NKV_STATUS_PAGE_OVERFLOW);
    }
  }
  expect_models(unit_, unit_.run(prepare()));
}

TEST_F(AppendFaultsTest, PoisonedRowsAndLists) {
  for (std::uint32_t page = 0; page < kPages; ++page) {
    for (const bool keys : {false, true}) {
      const nkv_append_command command = prepare();
      const std::uint64_t row = std::uint64_t{page} * NKV_PAGE_TOKENS + test::pick(random_, 0, 63);
      const std::uint64_t at = keys ? command.keys + row * command.key_stride
                                    : command.values + row * command.value_stride;
      unit_.set_faults({.poisoned = {AppendUnit::kWindowBase + at}});
      const model::Outcome outcome = unit_.run(command);
      std::ranges::copy(unit_.window().subspan(command.page_list, kPages * sizeof(nkv_page_entry)),
                        unit_.models_window().subspan(command.page_list).begin());
      for (std::uint32_t p = 0; p < kPages; ++p) EXPECT_EQ(entry(p).v_exponent, 0);
      expect_refused(outcome, NKV_STATUS_POISON, page);
      if (HasFailure()) return;
    }
  }
  const nkv_append_command command = prepare();
  unit_.set_faults({.poisoned = {AppendUnit::kWindowBase + command.page_list / 64 * 64}});
  const model::Outcome outcome = unit_.run(command);
  EXPECT_EQ(outcome.verdict.status, NKV_STATUS_POISON);
  unit_.set_faults({});
  expect_models(unit_, unit_.run(prepare()));
}

// The command's check refuses these. Should one ever pass, it ends, and so does nobody else's
// command.
TEST_F(AppendFaultsTest, RowsBeyondTheWindow) {
  for (const bool keys : {false, true}) {
    nkv_append_command command = prepare();
    (keys ? command.keys : command.values) = AppendUnit::kWindowBytes - NKV_BURST_BYTES;
    const model::Outcome outcome =
        unit_.CommandUnit::run(command, [](auto&&...) { return model::Outcome{}; });
    expect_refused(outcome, NKV_STATUS_POISON, 0);
  }
  expect_models(unit_, unit_.run(prepare()));
}

// Whenever it stops: a page that can be found is whole, and no entry speaks of one that cannot.
TEST_F(AppendFaultsTest, StoppedAtAnyMoment) {
  for (unsigned number = 0; number < 60 && !HasFailure(); ++number) {
    const nkv_append_command command = prepare({.head_dim = 32, .value_dim = 32});
    const model::Domain domain{.window = model::Window(unit_.models_window()),
                               .tenant = AppendUnit::kTenant};
    ASSERT_TRUE(model::append(domain, command).verdict.ok());
    unit_.begin(command, test::pick(random_, 1, 1400));
    bool all_found = true;
    for (std::uint32_t page = 0; page < kPages; ++page) {
      all_found = all_found && can_be_found(page);
      if (!can_be_found(page)) continue;
      EXPECT_TRUE(
          std::ranges::equal(unit_.window().subspan(place(page), shape_.page_bytes()),
                             unit_.models_window().subspan(place(page), shape_.page_bytes())))
          << "page " << page;
    }
    for (std::uint32_t page = 0; page < kPages; ++page) {
      EXPECT_TRUE(all_found || entry(page).v_exponent == 0) << "entry " << page;
    }
    number % 2 == 0 ? unit_.clear() : unit_.power_up();
    const model::Outcome outcome = unit_.run(prepare());
    expect_models(unit_, outcome);
  }
}

}  // namespace
}  // namespace nearkv::rtl_test
