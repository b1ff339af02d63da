// A queue sees only its tenant's pages, whatever it asks of them and however deep it looks.
#include <gtest/gtest.h>

#include "support/devices.hpp"
#include "support/offers.hpp"
#include "support/page_commands.hpp"

namespace nearkv::test {
namespace {

class TenantTest : public testing::TestWithParam<std::string> {
 protected:
  BenchDevice bench_{GetParam()};
  const std::uint8_t codec_ = best_codec(bench_.device());
};

TEST_P(TenantTest, EveryCommandRefusesThePagesOfAnotherTenant) {
  const KvData data = make_kv(Shape::kGaussian, 192, 64, 48, 1);
  const std::vector<std::uint16_t> queries = make_queries(data, 2, 3.0, 2);
  const StoredList list =
      append(&bench_, data, NKV_ROW_FORM_RAW, NKV_ROW_FORM_RAW);  // RAW serves INDEXER too.
  ASSERT_EQ(list.completion.status, NKV_STATUS_OK);
  for (const PageCommand& command : page_commands(&bench_, list, queries, codec_)) {
    const std::vector<std::byte> before(bench_.allocated().begin(), bench_.allocated().end());
    const nkv_completion refused = bench_.run_as_stranger(command.bytes);
    EXPECT_EQ(refused.status, NKV_STATUS_BAD_PAGE) << command.name;
    EXPECT_EQ(refused.detail, 0u) << command.name;
    EXPECT_EQ(refused.count, 0u) << command.name;
    EXPECT_TRUE(std::ranges::equal(before, bench_.allocated())) << command.name << " left a trace";
    EXPECT_EQ(bench_.run(command.bytes).status, NKV_STATUS_OK) << command.name;
  }
}

// The foreign page scores lowest, so that no command comes to read a row of it: the scan must tell.
TEST_P(TenantTest, OneForeignPageInAListIsFound) {
  const KvData data = make_kv(Shape::kGaussian, 192, 64, 48, 1);
  const std::vector<std::uint16_t> queries = make_queries(data, 2, 3.0, 2);
  const StoredList own = append(&bench_, data, NKV_ROW_FORM_RAW, NKV_ROW_FORM_RAW);
  const StoredList foreign = append(&bench_, data, NKV_ROW_FORM_RAW, NKV_ROW_FORM_RAW);
  // The stranger rewrites the middle page as its own, with zeros.
  nkv_append_command command{};
  command.opcode = NKV_OPCODE_APPEND;
  command.head_dim = 64;
  command.value_dim = 48;
  command.tokens = NKV_PAGE_TOKENS;
  command.keys = bench_.allocate(NKV_PAGE_TOKENS * 128);
  command.values = bench_.allocate(NKV_PAGE_TOKENS * 96);
  command.page_list = foreign.page_list + sizeof(nkv_page_entry);
  command.key_stride = 128;
  command.value_stride = 96;
  ASSERT_EQ(bench_.run_as_stranger(command).status, NKV_STATUS_OK);
  *bench_.at<nkv_page_entry>(own.page_list + sizeof(nkv_page_entry)) =
      *bench_.at<nkv_page_entry>(foreign.page_list + sizeof(nkv_page_entry));

  for (const PageCommand& listed : page_commands(&bench_, own, queries, codec_)) {
    if (listed.name == "GATHER" || listed.name == "ERASE") continue;  // Not all pages; destroys.
    const nkv_completion refused = bench_.run(listed.bytes);
    EXPECT_EQ(refused.status, NKV_STATUS_BAD_PAGE) << listed.name;
    EXPECT_EQ(refused.detail, 1u) << listed.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, TenantTest, testing::ValuesIn(device_uris()), device_name);

}  // namespace
}  // namespace nearkv::test
