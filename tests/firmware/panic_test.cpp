// A firmware that goes wrong comes back, and tells what it was.
#include <gtest/gtest.h>

#include <array>

#include "capacity.hpp"
#include "host.hpp"
#include "tenants.hpp"

namespace nearkv::testing {
namespace {

class Panic : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(host.starts()); }

  nkv_firmware_panic last() {
    constexpr std::array<std::uint8_t, 16> kDebugLog = {0x5e, 0x18, 0x19, 0xd9, 0x11, 0xa9,
                                                        0x40, 0x0c, 0x81, 0x1f, 0xd6, 0x07,
                                                        0x19, 0x40, 0x3d, 0x86};
    const Payload log = log_part(kDebugLog, 0, sizeof(nkv_firmware_panic));
    const Answer answer = host.execute(NKV_CCI_OPCODE_GET_LOG, log);
    nkv_firmware_panic panic{};
    EXPECT_EQ(answer.bytes.size(), sizeof(panic));
    std::memcpy(&panic, answer.bytes.data(), std::min(answer.bytes.size(), sizeof(panic)));
    return panic;
  }

  Host host{emulator::read_image(NEARKV_BROKEN_FIRMWARE_ROM)};
};

TEST_F(Panic, IsToldAfterTheFirmwareHasStartedAnew) {
  EXPECT_EQ(last().panics, 0U);
  EXPECT_EQ(last().starts, 1U);
  const Answer answer = host.execute(NKV_CCI_OPCODE_GET_HEALTH);
  EXPECT_EQ(answer.status, NKV_CCI_STATUS_INTERNAL_ERROR) << "of the command that was lost";
  EXPECT_TRUE(answer.bytes.empty());
  const nkv_firmware_panic panic = last();
  EXPECT_EQ(panic.panics, 1U);
  EXPECT_EQ(panic.starts, 2U);
  EXPECT_EQ(panic.cause, 7U) << "a store that nobody took";
  EXPECT_EQ(panic.value, 0xDEAD0000U);
  EXPECT_GE(panic.address, unsigned{NKV_PROCESSOR_RAM_AT});
  EXPECT_LT(panic.address, NKV_PROCESSOR_RAM_AT + NKV_PROCESSOR_RAM_BYTES / 2);
}

TEST_F(Panic, CanComeAgainAndAgain) {
  for (unsigned i = 1; i <= 5; ++i) {
    EXPECT_EQ(host.execute(NKV_CCI_OPCODE_GET_HEALTH).status, NKV_CCI_STATUS_INTERNAL_ERROR);
    EXPECT_EQ(last().panics, i);
  }
}

TEST_F(Panic, OfAFirmwareThatHangsIsTheWatchdogs) {
  const std::uint64_t start = host.processor.cycles();
  EXPECT_EQ(host.execute(NKV_CCI_OPCODE_GET_ALERTS).status, NKV_CCI_STATUS_INTERNAL_ERROR);
  EXPECT_GE(host.processor.cycles() - start, std::uint64_t{NKV_PROCESSOR_WATCHDOG_CYCLES});
  const nkv_firmware_panic panic = last();
  EXPECT_EQ(panic.panics, 0U) << "it met no exception";
  EXPECT_EQ(panic.starts, 2U);
  EXPECT_EQ(host.execute(NKV_CCI_OPCODE_GET_TIMESTAMP).status, NKV_CCI_STATUS_SUCCESS);
}

TEST_F(Panic, LeavesTenantsTheirLimits) {
  const std::vector<nkv_card_tenant> tenants = {user(1000, 4, 3, 1 << 20), others(0, 0)};
  ASSERT_EQ(set_tenants(host, tenants), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(host.execute(NKV_CCI_OPCODE_GET_HEALTH).status, NKV_CCI_STATUS_INTERNAL_ERROR);
  EXPECT_EQ(last().panics, 1U);
  EXPECT_EQ(tenants_of(host), table_of(tenants));
}

TEST_F(Panic, LeavesDynamicCapacityWithWhomItIs) {
  host.settle();
  host.execute(NKV_CCI_OPCODE_INITIATE_DYNAMIC_ADD, request(kFree, 4, 6));
  const Answer accepted = host.execute(NKV_CCI_OPCODE_ADD_DYNAMIC_RESPONSE, list_of({{0, 3}}));
  ASSERT_EQ(accepted.status, NKV_CCI_STATUS_SUCCESS);
  const Answer held = host.execute(NKV_CCI_OPCODE_GET_DYNAMIC_EXTENTS, all_extents());
  EXPECT_EQ(extents(held), (std::vector<Blocks>{{0, 3, 6}}));

  EXPECT_EQ(host.execute(NKV_CCI_OPCODE_GET_HEALTH).status, NKV_CCI_STATUS_INTERNAL_ERROR);
  EXPECT_EQ(last().panics, 1U);
  EXPECT_EQ(host.execute(NKV_CCI_OPCODE_GET_DYNAMIC_EXTENTS, all_extents()).bytes, held.bytes);

  host.operations.clear();
  host.execute(NKV_CCI_OPCODE_RELEASE_DYNAMIC, list_of({{1, 2}}));
  EXPECT_TRUE(host.run_until([&] {
    return std::ranges::any_of(host.operations, [](const Operation& operation) {
      return operation.kind == NKV_FIRMWARE_OPERATION_WIPE &&
             operation.at == kRegionAt + kBlockBytes;
    });
  })) << "what came back is wiped";
}

TEST_F(Panic, TakesNoErrorOfTheMemoryWithIt) {
  host.write_command(NKV_CCI_OPCODE_GET_HEALTH, {});
  host.ring();
  for (std::uint64_t i = 0; i < 3; ++i) host.processor.report_error(i * 128, false);
  ASSERT_TRUE(host.is_answered());
  host.settle();
  const Payload all = range(0, Card::kMemoryBytes);
  const std::uint64_t known = host.execute(NKV_CCI_OPCODE_GET_POISON, all).number(10, 2);
  EXPECT_GE(known, 2U) << "what it had taken, it had in its own memory";
  host.processor.report_error(4096, false);
  host.settle();
  EXPECT_EQ(host.execute(NKV_CCI_OPCODE_GET_POISON, all).number(10, 2), known + 1);
}

}  // namespace
}  // namespace nearkv::testing
