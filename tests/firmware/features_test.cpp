// Features that a host reads and sets.
#include "features.hpp"

#include <gtest/gtest.h>

namespace nearkv::testing {
namespace {

Feature scrub(Card& card) { return find_feature(card, NKV_CARD_FEATURE_SCRUB); }
Feature sharing(Card& card) { return find_feature(card, NKV_CARD_FEATURE_SHARING); }

TEST(Features, AreListedAsFarAsThereIsRoom) {
  Card card;
  EXPECT_EQ(list_features(card, 8, 0).number(0, 2), 0U);
  EXPECT_EQ(list_features(card, 8, 0).number(2, 2), 4U) << "there are";
  EXPECT_EQ(list_features(card, 8 + 48, 0).number(0, 2), 1U);
  EXPECT_EQ(list_features(card, 4096, 0).number(0, 2), 4U);
  EXPECT_EQ(list_features(card, 7, 0).status, NKV_CCI_STATUS_INVALID_INPUT);
  EXPECT_EQ(list_features(card, 4096, 4).status, NKV_CCI_STATUS_INVALID_INPUT);
}

TEST(Features, HaveTheScrubsCycle) {
  Card card;
  const Feature which = scrub(card);
  EXPECT_EQ(get_feature(card, which, 0, 4).number(0, 4), 0x01'01'0C'01U)
      << "enabled, 12 hours, 1 at least";
  EXPECT_EQ(set_feature(card, which, NKV_CCI_TRANSFER_FULL, 0, {24, 0}), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(get_feature(card, which, 0, 4).number(0, 4), 0x00'01'18'01U);
  EXPECT_EQ(get_feature(card, which, 1, 1).number(0, 1), 24U);
  EXPECT_EQ(set_feature(card, which, NKV_CCI_TRANSFER_FULL, 0, {0, 1}),
            NKV_CCI_STATUS_INVALID_INPUT);
  EXPECT_EQ(set_feature(card, which, NKV_CCI_TRANSFER_FULL, 0, {24, 2}),
            NKV_CCI_STATUS_INVALID_INPUT);
  while (card.turn()) {
  }
  card.uptime_ns = 1'000'000'000'000'000;
  EXPECT_FALSE(card.turn()) << "disabled";
}

TEST(Features, HaveTheEnginesShareOfTheMemory) {
  Card card;
  const Feature which = sharing(card);
  std::vector<std::uint8_t> wanted(24);
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = static_cast<std::uint8_t>(i);
  EXPECT_EQ(set_feature(card, which, NKV_CCI_TRANSFER_FULL, 0, wanted), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(card.registers[NKV_REG_INLINE_CONTROL], 0x07'06'05'04'03'02'01'00U);
  EXPECT_EQ(card.registers[NKV_REG_INLINE_LOAD], 0x17'16'15'14'13'12'11'10U);
  EXPECT_EQ(get_feature(card, which, 0, 24).bytes, wanted);
  card.media_answers = false;
  EXPECT_EQ(get_feature(card, which, 0, 24).status, NKV_CCI_STATUS_INTERNAL_ERROR);
}

TEST(Features, ComeInPartsThatFollowEachOther) {
  Card card;
  const Feature which = sharing(card);
  const std::vector<std::uint8_t> part(8, 5);
  EXPECT_EQ(set_feature(card, which, NKV_CCI_TRANSFER_CONTINUE, 0, part),
            NKV_CCI_STATUS_FEATURE_TRANSFER_OUT_OF_ORDER);
  EXPECT_EQ(set_feature(card, which, NKV_CCI_TRANSFER_INITIATE, 0, part), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(set_feature(card, which, NKV_CCI_TRANSFER_INITIATE, 0, part),
            NKV_CCI_STATUS_FEATURE_TRANSFER_IN_PROGRESS);
  EXPECT_EQ(set_feature(card, which, NKV_CCI_TRANSFER_CONTINUE, 16, part),
            NKV_CCI_STATUS_FEATURE_TRANSFER_OUT_OF_ORDER);
  EXPECT_EQ(set_feature(card, scrub(card), NKV_CCI_TRANSFER_CONTINUE, 8, part),
            NKV_CCI_STATUS_FEATURE_TRANSFER_OUT_OF_ORDER);
  EXPECT_EQ(set_feature(card, which, NKV_CCI_TRANSFER_CONTINUE, 8, part), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(card.registers.size(), 1U) << "not before it is whole";
  EXPECT_EQ(set_feature(card, which, NKV_CCI_TRANSFER_END, 16, part), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(card.registers[NKV_REG_INLINE_LIMITS], 0x05'05'05'05'05'05'05'05U);

  EXPECT_EQ(set_feature(card, which, NKV_CCI_TRANSFER_INITIATE, 0, part), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(set_feature(card, which, NKV_CCI_TRANSFER_END, 8, part),
            NKV_CCI_STATUS_INVALID_PAYLOAD_LENGTH);
  EXPECT_EQ(set_feature(card, which, NKV_CCI_TRANSFER_INITIATE, 0, part), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(set_feature(card, which, NKV_CCI_TRANSFER_ABORT, 0, {}), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(set_feature(card, which, NKV_CCI_TRANSFER_INITIATE, 0, part), NKV_CCI_STATUS_SUCCESS);
}

TEST(Features, RefuseWhatIsWrong) {
  Card card;
  const Feature which = scrub(card);
  const Feature none{std::vector<std::uint8_t>(16, 1), 0, 0};
  EXPECT_EQ(get_feature(card, none, 0, 0).status, NKV_CCI_STATUS_UNSUPPORTED);
  EXPECT_EQ(set_feature(card, none, NKV_CCI_TRANSFER_FULL, 0, {}), NKV_CCI_STATUS_UNSUPPORTED);
  EXPECT_EQ(get_feature(card, which, 0, 4, 1).status, NKV_CCI_STATUS_UNSUPPORTED_FEATURE_SELECTION);
  EXPECT_EQ(get_feature(card, which, 1, 4).status, NKV_CCI_STATUS_INVALID_INPUT);
  EXPECT_EQ(get_feature(card, which, 5, 0).status, NKV_CCI_STATUS_INVALID_INPUT);
  EXPECT_EQ(set_feature(card, which, NKV_CCI_TRANSFER_FULL, 0, {24, 1}, 2),
            NKV_CCI_STATUS_UNSUPPORTED_FEATURE_VERSION);
  EXPECT_EQ(set_feature(card, which, NKV_CCI_TRANSFER_FULL, 0, {24}),
            NKV_CCI_STATUS_INVALID_PAYLOAD_LENGTH);
  EXPECT_EQ(set_feature(card, which, NKV_CCI_TRANSFER_FULL, 0, {24, 1, 1}),
            NKV_CCI_STATUS_INVALID_PAYLOAD_LENGTH);
  EXPECT_EQ(set_feature(card, which, 5, 0, {24, 1}), NKV_CCI_STATUS_INVALID_INPUT);
  EXPECT_EQ(set_feature(card, which, 8, 0, {24, 1}), NKV_CCI_STATUS_INVALID_INPUT)
      << "nothing outlives a reset";
}

}  // namespace
}  // namespace nearkv::testing
