// nkv_read where commands are stopped, and where what they read changes under way: what they give
// was there, or they give nothing.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "read_commands.hpp"

namespace nearkv::rtl_test {
namespace {

TEST(ReadChangesTest, StoppedAtAnyMoment) {
  MoveUnit unit;
  test::Random random = test::case_random(7);
  for (unsigned number = 0; number < 40 && !testing::Test::HasFailure(); ++number) {
    const Listed listed = random_list(unit, random);
    unit.begin(gather_of(unit, listed, random), test::pick(random, 1, 3000));
    number % 2 == 0 ? unit.clear() : unit.power_up();
    const Listed next = random_list(unit, random);
    expect_read(unit, read_of(unit, next, random));
    expect_gather(unit, gather_of(unit, next, random));
  }
}

/// The command, during which a page of its list changes at any moment: what it gives was there
/// before, or all of it is there now, or it says that it gives nothing. Its status.
template <typename Command, typename Execute>
std::uint8_t expect_change_noticed(MoveUnit& unit, const Listed& listed, const Command& command,
                                   const Execute& execute, bool seals, test::Random& random) {
  const std::vector<std::byte> before(unit.window().begin(), unit.window().end());
  expect_models(unit, unit.run(command, execute));
  if (!unit.models_outcome().verdict.ok()) return unit.models_outcome().verdict.status;
  const auto rows = [&] {
    return unit.window().subspan(command.result, room_for(listed, command.count));
  };
  const std::vector<std::byte> expected(rows().begin(), rows().end());
  std::ranges::copy(before, unit.window().begin());

  unit.begin(command, test::pick(random, 1, static_cast<unsigned>(unit.run_cycles())));
  const auto pages = static_cast<std::uint32_t>(listed.entries.size());
  ForgedPage page(unit, listed.entries[test::pick(random, 0, pages - 1)]);
  const bool of_values = page.header.v_form != NKV_ROW_FORM_NONE && random() % 2 == 0;
  const nkv_page_array array = of_values ? NKV_PAGE_ARRAY_V_ROWS : NKV_PAGE_ARRAY_K_ROWS;
  std::vector<std::byte> others(page.bytes(array));
  for (std::byte& other : others) other = static_cast<std::byte>(random());
  page.put(array, others);
  if (seals) page.seal();

  const model::Outcome outcome = unit.finish();
  if (outcome.verdict.ok()) {
    // Changed before it was looked at.
    const bool is_new =
        execute(unit.models_domain(), command).verdict.ok() &&
        std::ranges::equal(rows(), unit.models_window().subspan(command.result, expected.size()));
    EXPECT_TRUE(is_new || std::ranges::equal(rows(), expected));
  } else {
    EXPECT_EQ(outcome.count, 0U);
  }
  return outcome.verdict.status;
}

TEST(ReadChangesTest, PagesThatChangeUnderWay) {
  MoveUnit unit;
  test::Random random = test::case_random(9);
  std::array<std::array<unsigned, 256>, 2> statuses{};
  for (unsigned number = 0; number < 200 && !testing::Test::HasFailure(); number += case_step()) {
    SCOPED_TRACE("round " + std::to_string(number));
    const Listed listed = random_list(unit, random);
    const bool seals = number % 4 < 2;
    ++statuses[seals][number % 2 == 0
                          ? expect_change_noticed(unit, listed, read_of(unit, listed, random),
                                                  &model::read, seals, random)
                          : expect_change_noticed(unit, listed, gather_of(unit, listed, random),
                                                  &model::gather, seals, random)];
  }
  for (const auto& of : statuses) EXPECT_GT(of[NKV_STATUS_OK], 10U / case_step());
  EXPECT_GT(statuses[0][NKV_STATUS_CORRUPT], 10U / case_step());
  EXPECT_GT(statuses[1][NKV_STATUS_STALE_PAGE], 10U / case_step());
}

// Ids that the host changes name pages that were not checked.
TEST(ReadChangesTest, IdsThatChangeUnderWay) {
  MoveUnit unit;
  test::Random random = test::case_random(10);
  unsigned refused = 0;
  for (unsigned number = 0; number < 60 && !testing::Test::HasFailure(); ++number) {
    unit.fill_with_garbage(random);
    const AppendShape shape{};
    Listed listed{.shape = shape, .entries = store_pages(unit, shape, 4, random), .page_list = 0};
    list_pages(unit, &listed);
    nkv_gather_command gather = gather_of(unit, listed, random);
    gather.count = 40;
    gather.result = unit.allocate(room_for(listed, gather.count), 64);
    const auto put_ids = [&](std::uint32_t page) {
      for (std::uint32_t i = 0; i < gather.count; ++i) {
        unit.put(gather.ids + 4ULL * i, page * NKV_PAGE_TOKENS + 63 - i);
      }
    };
    put_ids(0);
    expect_gather(unit, gather);
    unit.begin(gather, test::pick(random, 1, static_cast<unsigned>(unit.run_cycles())));
    put_ids(2);
    const model::Outcome outcome = unit.finish();
    if (outcome.verdict.ok()) continue;
    EXPECT_EQ(int{outcome.verdict.status}, NKV_STATUS_STALE_PAGE);
    EXPECT_EQ(outcome.verdict.detail, 2U);
    ++refused;
  }
  EXPECT_GT(refused, 5U);
}

}  // namespace
}  // namespace nearkv::rtl_test
