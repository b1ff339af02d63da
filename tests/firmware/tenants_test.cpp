// What users may have of a card: that it is kept, and what is refused.
#include "tenants.hpp"

#include <gtest/gtest.h>

namespace nearkv::testing {
namespace {

std::vector<nkv_card_tenant> some_tenants() {
  return {user(1000, 4, 15, 1 << 20), user(0, 0, 0, 0), others(16, ~std::uint64_t{0})};
}

TEST(Tenants, AreNobodyAtFirst) {
  Card card;
  EXPECT_EQ(tenants_of(card), table_of({}));
}

TEST(Tenants, AreKeptAsTheyWereSet) {
  Card card;
  ASSERT_EQ(set_tenants(card, some_tenants()), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(tenants_of(card), table_of(some_tenants()));
  ASSERT_EQ(set_tenants(card, {others(1, 1)}), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(tenants_of(card), table_of({others(1, 1)})) << "all of them anew";
  std::vector<nkv_card_tenant> many;
  for (unsigned i = 0; i < NKV_CARD_TENANTS; ++i) many.push_back(user(i, 1, 1, i));
  ASSERT_EQ(set_tenants(card, many), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(tenants_of(card), table_of(many));
}

TEST(Tenants, OutliveTheFirmware) {
  Card card;
  ASSERT_EQ(set_tenants(card, some_tenants()), NKV_CCI_STATUS_SUCCESS);
  card.start();
  EXPECT_EQ(tenants_of(card), table_of(some_tenants()));
}

TEST(Tenants, WhoAreNotKnownAnyMoreMayHaveNothing) {
  for (const bool is_sum : {false, true}) {
    Card card;
    ASSERT_EQ(set_tenants(card, some_tenants()), NKV_CCI_STATUS_SUCCESS);
    if (is_sum) {
      card.kept.tenants.sum ^= 1U << 31;
    } else {
      card.kept.tenants.table[0].window_bytes ^= 1U << 30;
    }
    card.start();
    EXPECT_EQ(tenants_of(card), table_of({others(0, 0)}));
    card.start();
    EXPECT_EQ(tenants_of(card), table_of({others(0, 0)}));
    EXPECT_EQ(set_tenants(card, some_tenants()), NKV_CCI_STATUS_SUCCESS);
  }
}

TEST(Tenants, ThatAreWrongChangeNothing) {
  Card card;
  ASSERT_EQ(set_tenants(card, some_tenants()), NKV_CCI_STATUS_SUCCESS);
  nkv_card_tenant owned = others(1, 1);
  owned.owner = 1;
  nkv_card_tenant unknown = user(1, 1, 1, 1);
  unknown.kind = NKV_CARD_TENANT_KIND_OTHERS + 1;
  std::vector<std::vector<nkv_card_tenant>> wrong = {
      {user(1, 17, 0, 0)},
      {user(1, 0, 16, 0)},
      {user(7, 1, 1, 1), user(8, 1, 1, 1), user(7, 2, 1, 1)},
      {others(1, 1), others(2, 2)},
      {owned},
      {unknown}};
  for (nkv_card_tenant nobody :
       {user(1, 0, 0, 0), user(0, 1, 0, 0), user(0, 0, 1, 0), user(0, 0, 0, 1)}) {
    nobody.kind = NKV_CARD_TENANT_KIND_NONE;
    wrong.push_back({nobody});
  }
  for (const auto& tenants : wrong) {
    EXPECT_EQ(set_tenants(card, tenants), NKV_CCI_STATUS_INVALID_INPUT);
    EXPECT_EQ(tenants_of(card), table_of(some_tenants()));
  }
  EXPECT_EQ(set_tenants(card, {user(0, 1, 1, 1), others(1, 1)}), NKV_CCI_STATUS_SUCCESS)
      << "a user's number may be 0";
}

}  // namespace
}  // namespace nearkv::testing
