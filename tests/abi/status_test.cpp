// Statuses, and numbers of the contract that software and hardware must never disagree on.
#include <gtest/gtest.h>

#include <cerrno>
#include <set>
#include <string>

#include "nkv_abi.h"

namespace nearkv::abi_test {
namespace {

TEST(Status, HasTheErrnoOfTheContract) {
  EXPECT_EQ(nkv_status_errno(NKV_STATUS_OK), 0);
  EXPECT_EQ(nkv_status_errno(NKV_STATUS_BAD_FIELD), EINVAL);
  EXPECT_EQ(nkv_status_errno(NKV_STATUS_ADDRESS_FAULT), EFAULT);
  EXPECT_EQ(nkv_status_errno(NKV_STATUS_STALE_PAGE), ESTALE);
  EXPECT_EQ(nkv_status_errno(NKV_STATUS_COLD_PAGE), EUCLEAN);
  EXPECT_EQ(nkv_status_errno(NKV_STATUS_QUEUE_FULL), EAGAIN);
  EXPECT_EQ(nkv_status_errno(NKV_STATUS_CODEC_ERROR), EBADMSG);
}

TEST(Status, SpeaksInWords) {
  EXPECT_STREQ(nkv_status_name(NKV_STATUS_STALE_PAGE), "STALE_PAGE");
  EXPECT_STREQ(nkv_status_message(NKV_STATUS_OK), "done");
  EXPECT_STREQ(
      nkv_status_message(NKV_STATUS_CORRUPT),
      "a checksum is wrong, so the page or object was not used; detail is the entry's index; "
      "drop the sequence or object and recompute it");
}

TEST(Status, AnUnknownOneIsAnErrorWithAText) {
  EXPECT_EQ(nkv_status_errno(255), EPROTO);
  EXPECT_STREQ(nkv_status_name(255), "UNKNOWN");
  EXPECT_STRNE(nkv_status_message(255), "");
}

TEST(Status, OnlyOkIsNoError) {
  for (int status = 0; status < 256; ++status) {
    const auto code = static_cast<std::uint8_t>(status);
    EXPECT_EQ(nkv_status_errno(code) == 0, status == NKV_STATUS_OK) << status;
  }
}

TEST(Identity, IsTheAsciiTextThatHexDumpsShow) {
  const std::uint64_t id = NKV_ABI_ID;
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(&id), sizeof(id)),
            std::string("\x01NEARKV\0", sizeof(id)));
  const std::uint32_t magic = NKV_PAGE_MAGIC;
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(&magic), sizeof(magic)), "NVKP");
}

TEST(Registers, StandWhereTheContractPutsThem) {
  EXPECT_EQ(NKV_REG_ID, 0x0U);
  EXPECT_EQ(NKV_REG_LIMITS, 0x20U);
  EXPECT_EQ(NKV_REG_LIMITS_TOP_K_SHIFT, 32);
  EXPECT_EQ(NKV_REG_LIMITS_TOP_K_MASK, 0xFFFF00000000U);
  EXPECT_EQ(NKV_REG_SQ_TAIL(0U), 0x1020U);
  EXPECT_EQ(NKV_REG_SQ_TAIL(3U), 0x11A0U);
  EXPECT_EQ(NKV_REG_SQ_TAIL_COUNT, 16);
  EXPECT_EQ(NKV_REG_QUEUE_STATUS(15U), 0x17C8U);
  EXPECT_EQ(NKV_REG_MAP_BYTES, 0x24000U);
}

TEST(Registers, AreKnownByTheirOffsets) {
  const std::set<std::uint32_t> offsets = {
#include "registers.inc"
  };
  for (std::uint32_t offset = 0; offset < NKV_REG_MAP_BYTES + 64; ++offset) {
    ASSERT_EQ(nkv_is_register(offset) != 0, offsets.contains(offset)) << offset;
  }
}

TEST(Structures, KeepThePlacesThatOtherTextsRelyOn) {
  EXPECT_EQ(offsetof(nkv_page_header, crc_hot), 60U);
  EXPECT_EQ(offsetof(nkv_page_header, crc_cold), 124U);
  EXPECT_EQ(offsetof(nkv_attend_command, result), 32U);
  EXPECT_EQ(offsetof(nkv_completion, phase), 3U);
  EXPECT_EQ(offsetof(nkv_completion, ticks), 40U);
}

}  // namespace
}  // namespace nearkv::abi_test
