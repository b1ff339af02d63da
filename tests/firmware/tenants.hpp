// Limits of a card's users, as its administrator sets and reads them.
#pragma once

#include <cstring>
#include <vector>

#include "features.hpp"

namespace nearkv::testing {

inline nkv_card_tenant user(std::uint32_t owner, std::uint16_t queues, std::uint8_t weight,
                            std::uint64_t window_bytes) {
  return {.owner = owner,
          .queues = queues,
          .weight = weight,
          .kind = NKV_CARD_TENANT_KIND_USER,
          .window_bytes = window_bytes};
}
inline nkv_card_tenant others(std::uint16_t queues, std::uint64_t window_bytes) {
  return {.owner = 0,
          .queues = queues,
          .weight = 0,
          .kind = NKV_CARD_TENANT_KIND_OTHERS,
          .window_bytes = window_bytes};
}

/// The table as bytes: these tenants, then entries of nobody.
inline std::vector<std::uint8_t> table_of(const std::vector<nkv_card_tenant>& tenants) {
  std::vector<std::uint8_t> bytes(std::size_t{NKV_CARD_TENANTS} * NKV_CARD_TENANT_BYTES);
  std::memcpy(bytes.data(), tenants.data(), tenants.size() * sizeof(nkv_card_tenant));
  return bytes;
}

template <typename AnyCard>
nkv_cci_status set_tenants(AnyCard& card, const std::vector<nkv_card_tenant>& tenants) {
  return set_feature(card, find_feature(card, NKV_CARD_FEATURE_TENANTS), NKV_CCI_TRANSFER_FULL, 0,
                     table_of(tenants));
}

template <typename AnyCard>
std::vector<std::uint8_t> tenants_of(AnyCard& card) {
  const Feature which = find_feature(card, NKV_CARD_FEATURE_TENANTS);
  return get_feature(card, which, 0, which.get_bytes).bytes;
}

}  // namespace nearkv::testing
