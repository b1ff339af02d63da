// What the firmware's mailbox answers, as CXL 3.1 lays it out; events and poison have their own.
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "card.hpp"

namespace nearkv::testing {
namespace {

constexpr std::array<std::uint8_t, 16> kCommandEffects = {
    0x0d, 0xa9, 0xc0, 0xb5, 0xbf, 0x41, 0x4b, 0x78, 0x8f, 0x79, 0x96, 0xb1, 0x62, 0x3b, 0x3f, 0x17};

TEST(Mailbox, RefusesAnyOtherOpcode) {
  Card card;
  const std::span known = card.commands();
  for (unsigned opcode = 0; opcode <= UINT16_MAX; ++opcode) {
    if (std::ranges::find(known, opcode, &cci_command::opcode) != known.end()) continue;
    ASSERT_EQ(card.execute(static_cast<std::uint16_t>(opcode)).status, NKV_CCI_STATUS_UNSUPPORTED);
  }
}

TEST(Mailbox, RefusesPayloadsOfOtherSizes) {
  Card card;
  const std::vector<std::uint8_t> bytes(NKV_MAILBOX_BYTES);
  for (const cci_command& command : card.commands()) {
    for (std::size_t size = 0; size <= bytes.size(); ++size) {
      const bool fits = size >= command.least_bytes && size <= command.most_bytes;
      const Answer answer = card.execute(command.opcode, {bytes.data(), size});
      if (fits) continue;
      ASSERT_EQ(answer.status, NKV_CCI_STATUS_INVALID_PAYLOAD_LENGTH) << command.opcode;
      ASSERT_TRUE(answer.bytes.empty());
    }
  }
}

TEST(Mailbox, ListsEachCommandAndItsEffectsInTheCommandEffectsLog) {
  Card card;
  const Answer logs = card.execute(NKV_CCI_OPCODE_GET_SUPPORTED_LOGS);
  ASSERT_EQ(logs.number(0, 2), 3U);
  const std::uint64_t log_bytes = logs.number(24, 4);
  const Answer log = card.execute(NKV_CCI_OPCODE_GET_LOG, log_part(kCommandEffects, 0, log_bytes));
  ASSERT_EQ(log.bytes.size(), card.commands().size() * 4);
  for (std::size_t i = 0; i < card.commands().size(); ++i) {
    EXPECT_EQ(log.number(i * 4, 2), card.commands()[i].opcode);
    EXPECT_EQ(log.number(i * 4 + 2, 2), card.commands()[i].effects);
  }
  const Answer part = card.execute(NKV_CCI_OPCODE_GET_LOG, log_part(kCommandEffects, 3, 6));
  EXPECT_EQ(part.bytes, std::vector(log.bytes.begin() + 3, log.bytes.begin() + 9));
}

TEST(Mailbox, RefusesPartsOfALogThatAreNotThere) {
  Card card;
  const std::uint64_t end = card.commands().size() * 4;
  for (const auto& [offset, bytes] : std::initializer_list<std::pair<std::uint64_t, std::uint64_t>>{
           {0, end + 1}, {end, 1}, {end + 1, 0}, {1, UINT32_MAX}, {UINT32_MAX, 2}}) {
    EXPECT_EQ(card.execute(NKV_CCI_OPCODE_GET_LOG, log_part(kCommandEffects, offset, bytes)).status,
              NKV_CCI_STATUS_INVALID_INPUT);
  }
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_GET_LOG, log_part(kCommandEffects, end, 0)).status,
            NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_GET_LOG, Payload().zeros(24)).status,
            NKV_CCI_STATUS_INVALID_LOG);
}

TEST(Mailbox, TellsTheTimeFromWhenItWasSet) {
  Card card;
  card.uptime_ns = 500;
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_GET_TIMESTAMP).number(0, 8), 0U) << "nobody set it";
  card.execute(NKV_CCI_OPCODE_SET_TIMESTAMP, Payload().number(1'000'000, 8));
  card.uptime_ns = 800;
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_GET_TIMESTAMP).number(0, 8), 1'000'300U);
}

TEST(Mailbox, SaysHowMuchMemoryThereIs) {
  constexpr std::uint64_t kStatic = Card::kMemoryBytes - Card::kDynamicBytes;
  Card card;
  const Answer memory = card.execute(NKV_CCI_OPCODE_IDENTIFY_MEMORY);
  ASSERT_EQ(memory.bytes.size(), 0x45U);
  EXPECT_EQ(memory.number(16, 8), kStatic >> 28) << "in units of 256 MiB";
  EXPECT_EQ(memory.number(24, 8), kStatic >> 28) << "all of it volatile";
  EXPECT_EQ(memory.number(32, 8), 0U) << "none of it persistent";
  EXPECT_EQ(memory.number(60, 3), std::uint64_t{NKV_POISON_RECORDS});
  const Answer partition = card.execute(NKV_CCI_OPCODE_GET_PARTITION);
  EXPECT_EQ(partition.number(0, 8), kStatic >> 28);
  EXPECT_EQ(partition.number(8, 8), 0U);
}

TEST(Mailbox, SaysThatItIsTooHotOrTooCold) {
  Card card;
  for (const auto& [celsius, critical] : std::initializer_list<std::pair<int, bool>>{
           {40, false}, {94, false}, {95, true}, {-9, false}, {-10, true}}) {
    card.celsius = static_cast<std::int16_t>(celsius);
    const Answer health = card.execute(NKV_CCI_OPCODE_GET_HEALTH);
    EXPECT_EQ(health.number(4, 2), static_cast<std::uint16_t>(celsius));
    EXPECT_EQ((health.number(2, 1) >> 2 & 3) == 2, critical) << celsius;
  }
}

TEST(Mailbox, CountsCorrectedErrorsAndTellsOfEachThousandthAsTheHostWants) {
  Card card;
  const auto warnings = [&] {
    return card.execute(NKV_CCI_OPCODE_GET_EVENT_RECORDS, Payload().number(1, 1)).number(20, 2);
  };
  const auto set = [&](unsigned valid, unsigned enable, unsigned threshold) {
    return card
        .execute(
            NKV_CCI_OPCODE_SET_ALERTS,
            Payload().number(valid, 1).number(enable, 1).zeros(6).number(threshold, 2).zeros(2))
        .status;
  };
  card.fail({{64, true}, {64, true}, {64, true}});
  EXPECT_EQ(warnings(), 0U) << "nobody asked";
  EXPECT_EQ(set(8, 8, 2), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_GET_ALERTS).number(12, 2), 2U);
  card.fail({{128, true}, {128, true}, {128, true}});
  EXPECT_EQ(warnings(), 2U) << "the fourth and the sixth";
  const Answer health = card.execute(NKV_CCI_OPCODE_GET_HEALTH);
  EXPECT_EQ(health.number(10, 4), 6U);
  EXPECT_EQ(health.number(2, 1) & 0x10, 0x10U);

  EXPECT_EQ(set(8, 0, 0), NKV_CCI_STATUS_SUCCESS) << "enough";
  card.fail({{64, true}, {64, true}});
  EXPECT_EQ(warnings(), 2U);
  EXPECT_EQ(set(8, 8, 0), NKV_CCI_STATUS_INVALID_INPUT) << "each zeroth";
  EXPECT_EQ(set(1, 1, 0), NKV_CCI_STATUS_INVALID_INPUT) << "life used is not known";
  EXPECT_EQ(set(0, 8, 5), NKV_CCI_STATUS_INVALID_INPUT) << "enabled, but not said to be valid";
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_GET_ALERTS).number(0, 1), 0U) << "what was refused is not";
}

// A card in any state takes any command, and then answers one that is right.
TEST(Mailbox, TakesWhateverComes) {
  constexpr unsigned kCommands = 200'000;
  std::mt19937_64 random(1);
  Card card;
  std::vector<std::uint8_t> bytes(NKV_MAILBOX_BYTES);
  unsigned succeeded = 0;
  for (unsigned i = 0; i < kCommands; ++i) {
    const cci_command& command = card.commands()[random() % card.commands().size()];
    const std::size_t room = command.most_bytes - command.least_bytes + std::size_t{1};
    std::size_t size = command.least_bytes + random() % room;
    if (random() % 8 == 0) size = random() % (bytes.size() + 1);
    const bool small = random() % 2 == 0;
    for (std::size_t at = 0; at < size; ++at) {
      bytes[at] =
          static_cast<std::uint8_t>(small && random() % 4 != 0 ? random() % 2 * 64 : random());
    }
    if (small && size >= 8) std::fill(bytes.begin() + 3, bytes.begin() + 8, std::uint8_t{0});
    if (random() % 2 == 0)
      name_something(card, command.opcode, random(), std::span(bytes).first(size));
    if (random() % 4 == 0) card.fail({{random() % Card::kMemoryBytes & ~63ULL, random() % 2 == 0}});
    const Answer answer = card.execute(command.opcode, {bytes.data(), size});
    ASSERT_LE(answer.bytes.size(), std::size_t{NKV_MAILBOX_BYTES});
    ASSERT_TRUE(answer.status == NKV_CCI_STATUS_SUCCESS || answer.bytes.empty());
    succeeded += answer.status == NKV_CCI_STATUS_SUCCESS ? 1U : 0U;
    ASSERT_EQ(card.execute(NKV_CCI_OPCODE_IDENTIFY_MEMORY).status, NKV_CCI_STATUS_SUCCESS);
  }
  EXPECT_GT(succeeded, kCommands / 10) << "hardly any was right: the test shows little";
}

}  // namespace
}  // namespace nearkv::testing
