// The firmware's mailbox as the driver gives it to who may manage the card.
#include "card/mailbox.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <bit>

#include "card_file.hpp"

namespace nearkv::test {
namespace {

class MailboxTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_card()) GTEST_SKIP() << kNoCard;
    std::string reason;
    ASSERT_EQ(mailbox.open("nearkv0", &reason), Status::kOk) << reason;
  }

  CardMailbox::Answer execute(std::uint16_t opcode, std::span<const std::byte> payload = {}) {
    CardMailbox::Answer answer;
    std::string reason;
    EXPECT_EQ(mailbox.execute(opcode, payload, &answer, &reason), Status::kOk) << reason;
    return answer;
  }

  CardMailbox mailbox;
};

TEST_F(MailboxTest, AnswersForTheFirmware) {
  const auto memory = execute(NKV_CCI_OPCODE_IDENTIFY_MEMORY);
  EXPECT_EQ(memory.status, NKV_CCI_STATUS_SUCCESS);
  EXPECT_GT(memory.number(16, 8), 0U) << "capacity in units of 256 MiB";
  EXPECT_EQ(execute(0xFFFF).status, NKV_CCI_STATUS_UNSUPPORTED);
  const std::array<std::byte, NKV_MAILBOX_BYTES> all{};
  EXPECT_EQ(execute(NKV_CCI_OPCODE_GET_HEALTH, all).status, NKV_CCI_STATUS_INVALID_PAYLOAD_LENGTH);
}

TEST_F(MailboxTest, WhatHasToSucceedSaysWhyItDidNot) {
  const struct {
    nkv_cci_status of_firmware;
    Status status;
  } cases[] = {{NKV_CCI_STATUS_SUCCESS, Status::kOk},
               {NKV_CCI_STATUS_INVALID_INPUT, Status::kBadArgument},
               {NKV_CCI_STATUS_UNSUPPORTED, Status::kUnsupported},
               {NKV_CCI_STATUS_BUSY, Status::kBusy},
               {NKV_CCI_STATUS_RESOURCES_EXHAUSTED, Status::kPoolFull},
               {NKV_CCI_STATUS_INTERNAL_ERROR, Status::kIoError}};
  for (const auto& [of_firmware, status] : cases) {
    std::string reason;
    EXPECT_EQ(mailbox.judge(of_firmware, &reason), status) << describe(of_firmware);
    EXPECT_EQ(reason.ends_with(describe(of_firmware)), status != Status::kOk) << reason;
  }
}

TEST_F(MailboxTest, CarriesPayloadsOfAnySizeBothWays) {
  std::array<std::byte, 8> time{};
  time[7] = std::byte{1};
  EXPECT_EQ(execute(NKV_CCI_OPCODE_SET_TIMESTAMP, time).status, NKV_CCI_STATUS_SUCCESS);
  const auto now = execute(NKV_CCI_OPCODE_GET_TIMESTAMP);
  EXPECT_GE(now.number(0, 8), 1ULL << 56);
  EXPECT_LT(now.number(0, 8), (1ULL << 56) + (1ULL << 50));
}

TEST_F(MailboxTest, WorksBesideQueues) {
  CardFile file(64 << 10);
  ASSERT_EQ(file.start(file.whole_window()), 0);
  for (unsigned i = 0; i < 20; ++i) {
    EXPECT_EQ(execute(NKV_CCI_OPCODE_GET_HEALTH).status, NKV_CCI_STATUS_SUCCESS);
    ASSERT_TRUE(file.works());
  }
}

TEST_F(MailboxTest, RefusesCallsThatAreWrong) {
  const CardFile file;
  std::array<std::byte, NKV_MAILBOX_BYTES> room{};
  const nkv_card_mailbox right{.opcode = NKV_CCI_OPCODE_GET_HEALTH,
                               .status = 0,
                               .payload_bytes = 0,
                               .room_bytes = room.size(),
                               .reserved = 0,
                               .payload = std::bit_cast<std::uint64_t>(room.data())};
  nkv_card_mailbox command = right;
  ASSERT_EQ(file.call(NKV_IOCTL_MAILBOX, &command), 0);
  EXPECT_EQ(command.payload_bytes, 18U);

  command = right;
  command.payload_bytes = NKV_MAILBOX_BYTES + 1;
  EXPECT_EQ(file.call(NKV_IOCTL_MAILBOX, &command), EINVAL);
  command = right;
  command.reserved = 1;
  EXPECT_EQ(file.call(NKV_IOCTL_MAILBOX, &command), EINVAL);
  command = right;
  command.room_bytes = 17;
  EXPECT_EQ(file.call(NKV_IOCTL_MAILBOX, &command), EMSGSIZE);
  command = right;
  command.payload = 8;
  EXPECT_EQ(file.call(NKV_IOCTL_MAILBOX, &command), EFAULT) << "nowhere for the answer";
  command.payload_bytes = 8;
  EXPECT_EQ(file.call(NKV_IOCTL_MAILBOX, &command), EFAULT) << "nothing for the command";
  command = right;
  EXPECT_EQ(file.call(NKV_IOCTL_MAILBOX, &command), 0) << "works on";
}

TEST_F(MailboxTest, IsNotForEveryUser) {
  const CardFile file;
  const pid_t child = ::fork();
  if (child == 0) {
    nkv_card_mailbox command{};
    if (::setuid(65534) != 0) ::_exit(1);
    ::_exit(file.call(NKV_IOCTL_MAILBOX, &command) == EPERM ? 0 : 2);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace nearkv::test
