// Dynamic capacity: a block has one owner at a time, and nobody sees what another wrote.
#include "capacity.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace nearkv::testing {
namespace {

constexpr std::uint64_t kBlocks = Card::kDynamicBytes / kBlockBytes;
constexpr unsigned kCapacityLog = 4;
enum EventType : std::uint8_t { kAdded, kWanted, kTaken };

struct Event {
  unsigned type;
  bool has_more;
  Blocks blocks;

  bool operator==(const Event&) const = default;
};

class Capacity : public ::testing::Test {
 protected:
  Capacity() { settle(); }

  void settle() {
    while (card.turn()) {
    }
  }
  nkv_cci_status offer(std::uint64_t policy, std::uint64_t count, std::uint64_t tag = 0,
                       const std::vector<Blocks>& listed = {}) {
    return card.execute(NKV_CCI_OPCODE_INITIATE_DYNAMIC_ADD, request(policy, count, tag, listed))
        .status;
  }
  nkv_cci_status take(std::uint64_t flags, std::uint64_t count, std::uint64_t tag = 0,
                      const std::vector<Blocks>& listed = {}) {
    return card.execute(NKV_CCI_OPCODE_INITIATE_DYNAMIC_RELEASE, request(flags, count, tag, listed))
        .status;
  }
  nkv_cci_status accept(const std::vector<Blocks>& blocks, bool has_more = false) {
    return card.execute(NKV_CCI_OPCODE_ADD_DYNAMIC_RESPONSE, list_of(blocks, has_more)).status;
  }
  nkv_cci_status release(const std::vector<Blocks>& blocks) {
    return card.execute(NKV_CCI_OPCODE_RELEASE_DYNAMIC, list_of(blocks)).status;
  }
  Answer extent_list() { return card.execute(NKV_CCI_OPCODE_GET_DYNAMIC_EXTENTS, all_extents()); }
  std::vector<Blocks> held() { return extents(extent_list()); }
  std::uint64_t generation() { return extent_list().number(8, 4); }

  /// Takes the events that came.
  std::vector<Event> events() {
    std::vector<Event> found;
    for (bool has_more = true; has_more;) {
      const Answer log =
          card.execute(NKV_CCI_OPCODE_GET_EVENT_RECORDS, Payload().number(kCapacityLog, 1));
      has_more = (log.number(0, 1) & 2) != 0;
      Payload handles;
      const std::uint64_t count = log.number(20, 2);
      handles.number(kCapacityLog, 1).zeros(1).number(count, 1).zeros(3);
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t at = 32 + i * 128;
        EXPECT_EQ(log.number(at, 4), 0xa7af95caU) << "a dynamic capacity event";
        EXPECT_EQ(log.number(at + 17, 3), 0U) << "informational";
        found.push_back({.type = static_cast<unsigned>(log.number(at + 48, 1)),
                         .has_more = log.number(at + 53, 1) == 1,
                         .blocks = extent_at(log, at + 56)});
        handles.number(log.number(at + 20, 2), 2);
      }
      if (count > 0) {
        EXPECT_EQ(card.execute(NKV_CCI_OPCODE_CLEAR_EVENT_RECORDS, handles).status,
                  NKV_CCI_STATUS_SUCCESS);
      }
    }
    return found;
  }

  Card card;
};

TEST_F(Capacity, IsOneRegionAtTheEndOfTheMemory) {
  const Answer answer =
      card.execute(NKV_CCI_OPCODE_GET_DYNAMIC_CAPACITY, Payload().number(8, 1).number(0, 1));
  ASSERT_EQ(answer.bytes.size(), 8U + 40 + 16);
  EXPECT_EQ(answer.number(0, 2), 0x0101U) << "one there is, one is told of";
  EXPECT_EQ(answer.number(8, 8), kRegionAt);
  EXPECT_EQ(answer.number(16, 8), Card::kDynamicBytes >> 28);
  EXPECT_EQ(answer.number(24, 8), Card::kDynamicBytes);
  EXPECT_EQ(answer.number(32, 8), kBlockBytes);
  EXPECT_EQ(answer.number(52, 4), answer.number(48, 4)) << "all extents are still to be had";
  EXPECT_EQ(answer.number(60, 4), NKV_CAPACITY_TAGS - 1U);
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_IDENTIFY_MEMORY).number(16, 8), kRegionAt >> 28)
      << "what else there is";
  EXPECT_TRUE(held().empty());
}

TEST_F(Capacity, HasLargerBlocksWhereThereIsMore) {
  for (const unsigned shift : {30U, 34U, 40U}) {
    Card large(std::uint64_t{1} << shift);
    const Answer answer =
        large.execute(NKV_CCI_OPCODE_GET_DYNAMIC_CAPACITY, Payload().number(1, 1).number(0, 1));
    EXPECT_EQ(answer.number(32, 8) * NKV_CAPACITY_BLOCKS, std::uint64_t{1} << shift);
  }
}

TEST_F(Capacity, IsOfferedAcceptedAndListed) {
  EXPECT_EQ(offer(kFree, 4, 77), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(events(), (std::vector<Event>{{kAdded, false, {0, 4, 77}}}));
  EXPECT_TRUE(held().empty()) << "not before the host says so";
  const std::uint64_t before = generation();
  EXPECT_EQ(accept({{0, 4}}), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(held(), (std::vector<Blocks>{{0, 4, 77}}));
  EXPECT_NE(generation(), before);
}

TEST_F(Capacity, ThatTheHostDoesNotTakeIsFreeAgain) {
  ASSERT_EQ(offer(kContiguous, kBlocks, 5), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(accept({{10, 2}}, true), NKV_CCI_STATUS_SUCCESS) << "and more to come";
  EXPECT_EQ(accept({{20, 1}}), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(held(), (std::vector<Blocks>{{10, 2, 5}, {20, 1, 5}}));
  EXPECT_EQ(accept({{30, 1}}), NKV_CCI_STATUS_INVALID_PHYSICAL_ADDRESS) << "the offer is over";
  EXPECT_EQ(offer(kFree, kBlocks - 3), NKV_CCI_STATUS_SUCCESS) << "nothing of it had to be wiped";
  EXPECT_EQ(accept({}), NKV_CCI_STATUS_SUCCESS) << "nothing at all";
  EXPECT_EQ(held().size(), 2U);
}

TEST_F(Capacity, IsOfferedOnceMoreOnlyWhenTheHostHasAnswered) {
  ASSERT_EQ(offer(kFree, 1), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(offer(kFree, 1), NKV_CCI_STATUS_RETRY_REQUIRED);
  EXPECT_EQ(accept({{0, 1}}), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(offer(kFree, 1), NKV_CCI_STATUS_SUCCESS);
}

TEST_F(Capacity, StaysAsItIsWhereAListIsWrong) {
  ASSERT_EQ(offer(kContiguous, 8, 9), NKV_CCI_STATUS_SUCCESS);
  ASSERT_EQ(accept({{0, 4}}, true), NKV_CCI_STATUS_SUCCESS);
  const std::vector<Blocks> had = held();
  const std::uint64_t had_generation = generation();
  const auto both = [&](std::uint16_t opcode, const Payload& payload) {
    const nkv_cci_status status = card.execute(opcode, payload).status;
    EXPECT_EQ(held(), had);
    EXPECT_EQ(generation(), had_generation);
    return status;
  };
  for (const std::uint16_t opcode :
       {NKV_CCI_OPCODE_ADD_DYNAMIC_RESPONSE, NKV_CCI_OPCODE_RELEASE_DYNAMIC}) {
    const std::uint64_t good = opcode == NKV_CCI_OPCODE_RELEASE_DYNAMIC ? 0 : 4;
    const std::uint64_t bad = 4 - good;
    EXPECT_EQ(both(opcode, list_of({{good, 2}, {bad, 1}})), NKV_CCI_STATUS_INVALID_PHYSICAL_ADDRESS)
        << "not what it may name";
    EXPECT_EQ(both(opcode, list_of({{good, 2}, {good + 1, 2}})), NKV_CCI_STATUS_INVALID_EXTENT_LIST)
        << "a block twice";
    EXPECT_EQ(both(opcode, list_of({{good, 0}})), NKV_CCI_STATUS_INVALID_EXTENT_LIST);
    EXPECT_EQ(both(opcode, list_of({{kBlocks, 1}})), NKV_CCI_STATUS_INVALID_PHYSICAL_ADDRESS);
    EXPECT_EQ(both(opcode, list_of({{kBlocks - 1, 2}})), NKV_CCI_STATUS_INVALID_PHYSICAL_ADDRESS);
    EXPECT_EQ(both(opcode, list_of({{good, ~std::uint64_t{0} / kBlockBytes}})),
              NKV_CCI_STATUS_INVALID_PHYSICAL_ADDRESS);
    EXPECT_EQ(both(opcode, Payload()
                               .number(1, 4)
                               .zeros(4)
                               .number(kRegionAt + good * kBlockBytes + 64, 8)
                               .number(kBlockBytes, 8)
                               .zeros(8)),
              NKV_CCI_STATUS_INVALID_EXTENT_LIST)
        << "not at a block";
    EXPECT_EQ(both(opcode, Payload().number(1, 4).zeros(4).number(0, 8).number(64, 8).zeros(8)),
              NKV_CCI_STATUS_INVALID_PHYSICAL_ADDRESS)
        << "memory that is always there";
    EXPECT_EQ(both(opcode, Payload().number(2, 4).zeros(4 + 24)),
              NKV_CCI_STATUS_INVALID_PAYLOAD_LENGTH);
    EXPECT_EQ(both(opcode, Payload().number(UINT32_MAX, 4).zeros(4 + 24)),
              NKV_CCI_STATUS_INVALID_PAYLOAD_LENGTH);
  }
}

TEST_F(Capacity, IsWipedBeforeItIsLentAgain) {
  ASSERT_EQ(offer(kFree, kBlocks), NKV_CCI_STATUS_SUCCESS);
  ASSERT_EQ(accept({{0, kBlocks}}), NKV_CCI_STATUS_SUCCESS);
  card.fail({{kRegionAt + 5 * kBlockBytes, false}, {kRegionAt + 9 * kBlockBytes, false}});
  ASSERT_EQ(release({{4, 4}}), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(held(), (std::vector<Blocks>{{0, 4}, {8, kBlocks - 8}}));
  EXPECT_EQ(offer(kFree, 1), NKV_CCI_STATUS_RESOURCES_EXHAUSTED) << "not wiped yet";
  settle();
  EXPECT_EQ(card.wiped_bytes, 4 * kBlockBytes);
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_GET_POISON, range(0, Card::kMemoryBytes)).number(10, 2), 1U)
      << "of what the host still has";
  EXPECT_EQ(offer(kFree, 5), NKV_CCI_STATUS_RESOURCES_EXHAUSTED);
  EXPECT_EQ(offer(kFree, 4), NKV_CCI_STATUS_SUCCESS);
}

TEST_F(Capacity, ThatCannotBeWipedIsNotLentAgain) {
  ASSERT_EQ(offer(kFree, kBlocks), NKV_CCI_STATUS_SUCCESS);
  ASSERT_EQ(accept({{0, kBlocks}}), NKV_CCI_STATUS_SUCCESS);
  ASSERT_EQ(release({{0, 2}}), NKV_CCI_STATUS_SUCCESS);
  card.media_answers = false;
  ASSERT_TRUE(card.turn());
  card.media_answers = true;
  settle();
  EXPECT_EQ(card.wiped_bytes, kBlockBytes);
  EXPECT_EQ(offer(kFree, 2), NKV_CCI_STATUS_RESOURCES_EXHAUSTED);
  EXPECT_EQ(offer(kFree, 1), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_GET_EVENT_RECORDS, Payload().number(2, 1)).number(20, 2),
            1U)
      << "a failure is told";
}

TEST_F(Capacity, IsChosenByThePolicyOfTheOffer) {
  ASSERT_EQ(offer(kPrescriptive, 0, 1, {{1, 1}, {4, 2}}), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(events(), (std::vector<Event>{{kAdded, true, {1, 1, 1}}, {kAdded, false, {4, 2, 1}}}));
  ASSERT_EQ(accept({{1, 1}, {4, 2}}), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(offer(kPrescriptive, 0, 1, {{3, 2}}), NKV_CCI_STATUS_INVALID_EXTENT_LIST) << "taken";
  ASSERT_EQ(offer(kFree, 4, 2), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(events(),
            (std::vector<Event>{
                {kAdded, true, {0, 1, 2}}, {kAdded, true, {2, 2, 2}}, {kAdded, false, {6, 1, 2}}}));
  ASSERT_EQ(accept({}), NKV_CCI_STATUS_SUCCESS);
  ASSERT_EQ(offer(kContiguous, 4, 2), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(events(), (std::vector<Event>{{kAdded, false, {6, 4, 2}}}));
  ASSERT_EQ(accept({}), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(offer(kContiguous, kBlocks - 3), NKV_CCI_STATUS_RESOURCES_EXHAUSTED);
  EXPECT_EQ(offer(kFree, kBlocks - 3), NKV_CCI_STATUS_SUCCESS);
}

TEST_F(Capacity, IsAskedBackAndTakenBack) {
  ASSERT_EQ(offer(kFree, 4, 1), NKV_CCI_STATUS_SUCCESS);
  ASSERT_EQ(accept({{0, 4}}), NKV_CCI_STATUS_SUCCESS);
  ASSERT_EQ(offer(kFree, 4, 2), NKV_CCI_STATUS_SUCCESS);
  ASSERT_EQ(accept({{4, 4}}), NKV_CCI_STATUS_SUCCESS);
  events();
  const std::vector<Blocks> had = held();
  const std::uint64_t had_generation = generation();
  EXPECT_EQ(take(kByTag, 2, 2), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(events(), (std::vector<Event>{{kWanted, false, {4, 2, 2}}}));
  EXPECT_EQ(held(), had) << "the host has been asked, no more";
  EXPECT_EQ(generation(), had_generation);
  EXPECT_EQ(take(kByExtent, 0, 0, {{3, 2}}), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(events(),
            (std::vector<Event>{{kWanted, true, {3, 1, 1}}, {kWanted, false, {4, 1, 2}}}));
  EXPECT_EQ(take(kByTag | kForced, 3, 2), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(events(), (std::vector<Event>{{kTaken, false, {4, 3, 2}}}));
  EXPECT_EQ(held(), (std::vector<Blocks>{{0, 4, 1}, {7, 1, 2}}));
  EXPECT_NE(generation(), had_generation);
  settle();
  EXPECT_EQ(card.wiped_bytes, 3 * kBlockBytes);
}

TEST_F(Capacity, RefusesRequestsThatAreWrong) {
  ASSERT_EQ(offer(kFree, 4, 1), NKV_CCI_STATUS_SUCCESS);
  ASSERT_EQ(accept({{0, 4}}), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(offer(3, 1), NKV_CCI_STATUS_INVALID_INPUT) << "shared capacity";
  EXPECT_EQ(offer(kFree, 0), NKV_CCI_STATUS_INVALID_INPUT);
  EXPECT_EQ(offer(kContiguous, 0), NKV_CCI_STATUS_INVALID_INPUT);
  EXPECT_EQ(offer(kPrescriptive, 4), NKV_CCI_STATUS_INVALID_INPUT) << "of none";
  EXPECT_EQ(offer(kFree, kBlocks + 1), NKV_CCI_STATUS_RESOURCES_EXHAUSTED);
  EXPECT_EQ(offer(kPrescriptive, 0, 1, {{5, 2}, {6, 1}}), NKV_CCI_STATUS_INVALID_EXTENT_LIST);
  EXPECT_EQ(take(kByTag, 1, 3), NKV_CCI_STATUS_INVALID_INPUT) << "no such tag";
  EXPECT_EQ(take(kByTag, 5, 1), NKV_CCI_STATUS_RESOURCES_EXHAUSTED) << "there are not so many";
  EXPECT_EQ(take(2, 1, 1), NKV_CCI_STATUS_INVALID_INPUT);
  EXPECT_EQ(take(1 << 6, 1, 1), NKV_CCI_STATUS_INVALID_INPUT);
  EXPECT_EQ(take(kByExtent, 0, 0, {{4, 1}}), NKV_CCI_STATUS_INVALID_EXTENT_LIST) << "not lent";
  Payload of_another_host = Payload().number(1, 2).zeros(2).number(kBlockBytes, 8).zeros(20);
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_INITIATE_DYNAMIC_ADD, of_another_host).status,
            NKV_CCI_STATUS_INVALID_INPUT);
  EXPECT_EQ(held(), (std::vector<Blocks>{{0, 4, 1}}));
  EXPECT_EQ(events().size(), 1U) << "of the first offer";
}

TEST_F(Capacity, HasSoManyTagsAndNoMore) {
  for (std::uint64_t tag = 1; tag < NKV_CAPACITY_TAGS; ++tag) {
    ASSERT_EQ(offer(kFree, 1, tag), NKV_CCI_STATUS_SUCCESS);
    ASSERT_EQ(accept({{tag - 1, 1}}), NKV_CCI_STATUS_SUCCESS);
  }
  EXPECT_EQ(offer(kFree, 1, 99), NKV_CCI_STATUS_RESOURCES_EXHAUSTED);
  EXPECT_EQ(release({{3, 1}}), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(offer(kFree, 1, 99), NKV_CCI_STATUS_SUCCESS) << "nobody has tag 4 any more";
}

TEST_F(Capacity, IsNotOfferedByHalves) {
  std::vector<Blocks> odd;
  for (std::uint64_t i = 1; i < kBlocks; i += 2) odd.push_back({i, 1});
  for (std::size_t i = 0; i < odd.size(); i += 16) {
    const std::vector<Blocks> part(odd.begin() + static_cast<long>(i),
                                   odd.begin() + static_cast<long>(std::min(i + 16, odd.size())));
    ASSERT_EQ(offer(kPrescriptive, 0, 0, part), NKV_CCI_STATUS_SUCCESS);
    ASSERT_EQ(accept(part), NKV_CCI_STATUS_SUCCESS);
    events();
  }
  EXPECT_EQ(held().size(), std::min<std::size_t>(odd.size(), 50)) << "as an answer has room";
  const Answer rest = card.execute(NKV_CCI_OPCODE_GET_DYNAMIC_EXTENTS, all_extents(50));
  EXPECT_EQ(extents(rest).size(), odd.size() - 50);
  EXPECT_EQ(extents(rest)[0], odd[50]);
  ASSERT_GT(kBlocks / 2, std::uint64_t{NKV_EVENT_LOG_RECORDS});
  EXPECT_EQ(offer(kFree, kBlocks / 2), NKV_CCI_STATUS_RESOURCES_EXHAUSTED)
      << "more events than the log has room for";
  EXPECT_TRUE(events().empty());
  EXPECT_EQ(offer(kFree, NKV_EVENT_LOG_RECORDS), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(events().size(), std::size_t{NKV_EVENT_LOG_RECORDS});
}

TEST_F(Capacity, OutlivesTheFirmware) {
  ASSERT_EQ(offer(kFree, 4, 6), NKV_CCI_STATUS_SUCCESS);
  ASSERT_EQ(accept({{1, 2}}), NKV_CCI_STATUS_SUCCESS);
  ASSERT_EQ(release({{1, 1}}), NKV_CCI_STATUS_SUCCESS);
  const std::uint64_t before = generation();
  card.start();
  settle();
  EXPECT_EQ(held(), (std::vector<Blocks>{{2, 1, 6}}));
  EXPECT_EQ(generation(), before);
  EXPECT_EQ(card.wiped_bytes, kBlockBytes) << "what had come back is not forgotten";
}

TEST_F(Capacity, ThatWasOfferedIsNotAfterARestart) {
  ASSERT_EQ(offer(kFree, 4, 6), NKV_CCI_STATUS_SUCCESS);
  card.start();
  EXPECT_TRUE(events().empty()) << "so the host does not know of it";
  EXPECT_NE(accept({{0, 4}}), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(offer(kFree, kBlocks, 7), NKV_CCI_STATUS_SUCCESS) << "of all there is";
}

TEST_F(Capacity, ThatIsNotKnownAnyMoreCountsAsTheHosts) {
  ASSERT_EQ(offer(kFree, 4), NKV_CCI_STATUS_SUCCESS);
  ASSERT_EQ(accept({{0, 4}}), NKV_CCI_STATUS_SUCCESS);
  card.kept.capacity.blocks[0].state ^= 1;
  card.start();
  settle();
  EXPECT_EQ(held(), (std::vector<Blocks>{{0, kBlocks}}));
  EXPECT_EQ(card.wiped_bytes, 0U);
  EXPECT_EQ(release({{0, kBlocks}}), NKV_CCI_STATUS_SUCCESS)
      << "and the host may say that it is not";
}

TEST(NoCapacity, IsNoCommand) {
  Card card(0);
  for (const std::uint16_t opcode :
       {NKV_CCI_OPCODE_GET_DYNAMIC_CAPACITY, NKV_CCI_OPCODE_GET_DYNAMIC_EXTENTS,
        NKV_CCI_OPCODE_ADD_DYNAMIC_RESPONSE, NKV_CCI_OPCODE_RELEASE_DYNAMIC,
        NKV_CCI_OPCODE_INITIATE_DYNAMIC_ADD, NKV_CCI_OPCODE_INITIATE_DYNAMIC_RELEASE}) {
    EXPECT_EQ(card.execute(opcode).status, NKV_CCI_STATUS_UNSUPPORTED);
    EXPECT_EQ(std::ranges::count(card.commands(), opcode, &cci_command::opcode), 0);
  }
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_IDENTIFY_MEMORY).number(16, 8), Card::kMemoryBytes >> 28);
}

// Against a map of who has which block, kept by the answers alone.
TEST_F(Capacity, NeverHasTwoOwners) {
  enum Owner : std::uint8_t { kNobody, kOffered, kHost, kDirty };
  std::vector<Owner> owners(kBlocks, kNobody);
  std::mt19937_64 random(11);
  const std::vector<Blocks> none;
  unsigned lent = 0;
  const auto any = [&] {
    std::vector<Blocks> list(random() % 3);
    for (Blocks& blocks : list) blocks = {random() % kBlocks, 1 + random() % 4};
    return list;
  };
  const auto each = [&](const std::vector<Blocks>& list, auto&& change) {
    for (const Blocks& blocks : list) {
      for (std::uint64_t i = 0; i < blocks.count; ++i) change(owners.at(blocks.first + i));
    }
  };
  const auto move = [&](const std::vector<Blocks>& list, Owner from, Owner to) {
    each(list, [&](Owner& owner) {
      ASSERT_EQ(owner, from);
      owner = to;
    });
  };
  for (unsigned i = 0; i < 50'000; ++i) {
    std::vector<Blocks> list = any();
    switch (random() % 6) {
      case 0:
        (void)offer(random() % 3, random() % 5, random() % 3, random() % 2 == 0 ? list : none);
        break;
      case 1: {
        const bool has_more = random() % 2 == 0;
        if (random() % 2 == 0) {
          list.clear();
          for (std::uint64_t at = 0; at < kBlocks && list.size() < 4; ++at) {
            if (owners[at] == kOffered) list.push_back({at, 1});
          }
        }
        if (accept(list, has_more) != NKV_CCI_STATUS_SUCCESS) break;
        move(list, kOffered, kHost);
        if (!has_more) std::ranges::replace(owners, kOffered, kNobody);
        break;
      }
      case 2:
        if (release(list) == NKV_CCI_STATUS_SUCCESS) move(list, kHost, kDirty);
        break;
      case 3:
        (void)take(random() % 2 | (random() % 4 == 0 ? unsigned{kForced} : 0U), random() % 5,
                   random() % 3, random() % 2 == 0 ? list : none);
        break;
      case 4:
        card.start();
        std::ranges::replace(owners, kOffered, kNobody);
        break;
      default:
        settle();
        std::ranges::replace(owners, kDirty, kNobody);
    }
    for (const Event& event : events()) {
      if (event.type == kAdded) move({event.blocks}, kNobody, kOffered);
      if (event.type == kTaken) move({event.blocks}, kHost, kDirty);
      lent += event.type == kAdded ? 1 : 0;
    }
    std::vector<bool> is_held(kBlocks);
    for (const Blocks& blocks : held()) {
      for (std::uint64_t at = 0; at < blocks.count; ++at) is_held.at(blocks.first + at) = true;
    }
    if (extent_list().number(4, 4) > 50) continue;  // An answer has not room for all.
    for (std::uint64_t at = 0; at < kBlocks; ++at) {
      ASSERT_EQ(owners[at] == kHost, is_held[at]) << "block " << at << " after " << i;
    }
  }
  EXPECT_GT(lent, 1'000U);
}

}  // namespace
}  // namespace nearkv::testing
