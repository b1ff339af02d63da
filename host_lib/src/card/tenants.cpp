#include "card/tenants.hpp"

#include <array>
#include <bit>
#include <cstring>

#include "card/feature.hpp"

namespace nearkv {
namespace {

static_assert(std::endian::native == std::endian::little, "the table is copied as it is");

using Table = std::array<nkv_card_tenant, NKV_CARD_TENANTS>;

}  // namespace

Status read_tenants(CardMailbox* mailbox, std::vector<nkv_card_tenant>* tenants,
                    std::string* reason) {
  tenants->clear();
  Feature feature;
  const Status status = read_feature(mailbox, NKV_CARD_FEATURE_TENANTS, &feature, reason);
  if (status != Status::kOk) return status;
  Table table{};
  if (feature.value.size() != sizeof(table)) {
    *reason = "the card's firmware keeps another table of tenants than this program knows";
    return Status::kUnsupported;
  }
  std::memcpy(table.data(), feature.value.data(), sizeof(table));
  for (const nkv_card_tenant& tenant : table) {
    if (tenant.kind != NKV_CARD_TENANT_KIND_NONE) tenants->push_back(tenant);
  }
  return Status::kOk;
}

Status write_tenants(CardMailbox* mailbox, const std::vector<nkv_card_tenant>& tenants,
                     std::string* reason) {
  Table table{};
  if (tenants.size() > table.size()) {
    *reason = "a card keeps limits of " + std::to_string(table.size()) + " users at most";
    return Status::kBadArgument;
  }
  std::memcpy(table.data(), tenants.data(), tenants.size() * sizeof(nkv_card_tenant));
  Feature feature;
  const Status status = read_feature(mailbox, NKV_CARD_FEATURE_TENANTS, &feature, reason);
  if (status != Status::kOk) return status;
  return write_feature(mailbox, feature, std::as_bytes(std::span(table)), reason);
}

bool is_same_owner(const nkv_card_tenant& a, const nkv_card_tenant& b) {
  return a.kind == b.kind && a.owner == b.owner;
}

}  // namespace nearkv
