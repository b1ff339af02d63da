// A card's firmware updated on its processor: the loader checks what starts.
#include <gtest/gtest.h>

#include <string>

#include "host.hpp"
#include "transfer.hpp"

namespace nearkv::testing {
namespace {

std::vector<std::uint8_t> read_signed(const std::string& path) {
  const std::vector<std::byte> bytes = emulator::read_image(path);
  std::vector<std::uint8_t> file(bytes.size());
  std::memcpy(file.data(), bytes.data(), bytes.size());
  return file;
}

class ProcessorUpdate : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(host->starts()); }

  nkv_cci_status finish() {
    host->settle();
    const Answer answer = host->execute(NKV_CCI_OPCODE_GET_BACKGROUND);
    return static_cast<nkv_cci_status>(answer.number(4, 2));
  }
  nkv_cci_status install(const std::vector<std::uint8_t>& file, unsigned slot) {
    return ended(transfer(*host, file, slot), [this] { return finish(); });
  }
  nkv_cci_status activate(unsigned slot, bool at_once) {
    return ended(start(*host, slot, at_once), [this] { return finish(); });
  }
  /// As finish(), but asks all the time: also while the firmware starts anew.
  nkv_cci_status await_background() {
    for (;;) {
      const Answer answer = host->execute(NKV_CCI_OPCODE_GET_BACKGROUND);
      EXPECT_EQ(answer.status, NKV_CCI_STATUS_SUCCESS);
      if ((answer.number(0, 1) & 1) == 0) return static_cast<nkv_cci_status>(answer.number(4, 2));
    }
  }
  /// What the firmware calls itself.
  std::string version() { return host->execute(NKV_CCI_OPCODE_IDENTIFY_MEMORY).text(0, 16); }
  /// The card again, with the flash memory that it had.
  void power_on() {
    emulator::Flash flash = host->flash;
    flash.restore_power();
    host = std::make_unique<Host>();
    host->flash = flash;
    ASSERT_TRUE(host->starts());
  }

  std::unique_ptr<Host> host = std::make_unique<Host>();
  const std::vector<std::uint8_t> next = read_signed(NEARKV_NEXT_FIRMWARE_SIGNED);
};

TEST_F(ProcessorUpdate, StartsTheNewImageAtOnceAndKeepsIt) {
  const std::string built_in = version();
  EXPECT_EQ(install(next, 1), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(version(), built_in);
  const std::uint64_t begin = host->processor.cycles();
  EXPECT_EQ(start(*host, 1, true), NKV_CCI_STATUS_BACKGROUND_STARTED);
  EXPECT_EQ(await_background(), NKV_CCI_STATUS_SUCCESS);
  std::printf("check, restart, check: %lu cycles\n",
              static_cast<unsigned long>(host->processor.cycles() - begin));
  EXPECT_EQ(version(), "nearkv next");
  EXPECT_EQ(host->execute(NKV_CCI_OPCODE_GET_FIRMWARE).number(1, 1), 1U) << "slot 1 runs";
  power_on();
  EXPECT_EQ(version(), "nearkv next");
}

TEST_F(ProcessorUpdate, RefusesAnImageThatIsNotAsItWasSigned) {
  auto changed = next;
  changed.back() ^= 1;
  EXPECT_EQ(install(changed, 1), NKV_CCI_STATUS_FIRMWARE_AUTHENTICATION_FAILED);
  changed = next;
  changed[130] ^= 1;
  EXPECT_EQ(install(changed, 1), NKV_CCI_STATUS_FIRMWARE_AUTHENTICATION_FAILED);
  EXPECT_EQ(activate(1, true), NKV_CCI_STATUS_INVALID_SLOT);
}

TEST_F(ProcessorUpdate, GoesBackFromAnImageThatHangsAtItsFirstCommand) {
  const std::string built_in = version();
  ASSERT_EQ(install(read_signed(NEARKV_BROKEN_FIRMWARE_SIGNED), 1), NKV_CCI_STATUS_SUCCESS);
  ASSERT_EQ(activate(1, false), NKV_CCI_STATUS_SUCCESS);
  power_on();
  for (unsigned start = 1; start <= NKV_BOOT_TRIES; ++start) {
    EXPECT_EQ(host->execute(NKV_CCI_OPCODE_GET_HEALTH).status, NKV_CCI_STATUS_INTERNAL_ERROR)
        << start;
  }
  EXPECT_EQ(host->execute(NKV_CCI_OPCODE_GET_HEALTH).status, NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(version(), built_in);
  EXPECT_EQ(finish(), NKV_CCI_STATUS_FIRMWARE_ROLLED_BACK);
}

/// firmware_update_test cuts it everywhere; here it is a record that is torn, and one that is not.
TEST_F(ProcessorUpdate, SurvivesAPowerCutWhileItIsActivated) {
  ASSERT_EQ(install(next, 1), NKV_CCI_STATUS_SUCCESS);
  const emulator::Flash installed = host->flash;
  for (const unsigned cut : {1U, 2U}) {
    host = std::make_unique<Host>();
    host->flash = installed;
    ASSERT_TRUE(host->starts());
    host->flash.cut_power_after(cut);
    (void)start(*host, 1, true);
    host->settle();
    power_on();
    const bool is_new = version() == "nearkv next";
    EXPECT_EQ(is_new, cut == 2);
  }
}

}  // namespace
}  // namespace nearkv::testing
