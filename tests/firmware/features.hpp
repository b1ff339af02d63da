// Features as a host asks for them, of a card that is played or of the firmware's processor.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "card.hpp"

namespace nearkv::testing {

struct Feature {
  std::vector<std::uint8_t> uuid;
  std::uint64_t get_bytes, set_bytes;
};

/// Of the features from `first` on, as many as there is `room` for.
template <typename AnyCard>
Answer list_features(AnyCard& card, std::uint64_t room, std::uint64_t first) {
  return card.execute(NKV_CCI_OPCODE_GET_SUPPORTED_FEATURES,
                      Payload().number(room, 4).number(first, 2).zeros(2));
}

template <typename AnyCard>
Feature find_feature(AnyCard& card, nkv_card_feature which) {
  const Answer answer = list_features(card, 8 + 48, which);
  EXPECT_EQ(answer.bytes.size(), 8U + 48U);
  return {{answer.bytes.begin() + 8, answer.bytes.begin() + 24},
          answer.number(8 + 18, 2),
          answer.number(8 + 20, 2)};
}

template <typename AnyCard>
Answer get_feature(AnyCard& card, const Feature& which, std::uint64_t offset, std::uint64_t bytes,
                   unsigned selection = 0) {
  return card.execute(
      NKV_CCI_OPCODE_GET_FEATURE,
      Payload().raw(which.uuid).number(offset, 2).number(bytes, 2).number(selection, 1));
}

template <typename AnyCard>
nkv_cci_status set_feature(AnyCard& card, const Feature& which, unsigned action,
                           std::uint64_t offset, const std::vector<std::uint8_t>& bytes,
                           unsigned version = 1) {
  Payload payload = Payload().raw(which.uuid);
  payload.number(action, 4).number(offset, 2).number(version, 1).zeros(9);
  return card.execute(NKV_CCI_OPCODE_SET_FEATURE, payload.raw(bytes)).status;
}

}  // namespace nearkv::testing
