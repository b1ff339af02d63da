// Images of the firmware that come by the mailbox: which of them a card starts, whatever happens.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "signing.hpp"
#include "transfer.hpp"

namespace nearkv::testing {
namespace {

constexpr std::uint64_t kSecondNs = 1'000'000'000;

std::vector<std::uint8_t> image_of(unsigned seed, std::size_t bytes) {
  std::mt19937 random(seed);
  std::vector<std::uint8_t> image(bytes);
  std::ranges::generate(image, [&] { return static_cast<std::uint8_t>(random()); });
  return image;
}

class Update : public ::testing::Test {
 protected:
  /// Until nothing runs in the background; how it ended.
  nkv_cci_status finish() {
    while (card.execute(NKV_CCI_OPCODE_GET_BACKGROUND).number(0, 1) & 1U) card.turn();
    return static_cast<nkv_cci_status>(card.execute(NKV_CCI_OPCODE_GET_BACKGROUND).number(4, 2));
  }
  nkv_cci_status install(const std::vector<std::uint8_t>& file, unsigned slot) {
    return ended(transfer(card, file, slot), [this] { return finish(); });
  }
  nkv_cci_status activate(unsigned slot, bool at_once = true) {
    return ended(start(card, slot, at_once), [this] { return finish(); });
  }
  /// Installs, activates, starts it, and lets it answer a command.
  void run(const std::vector<std::uint8_t>& file, unsigned slot) {
    ASSERT_EQ(install(file, slot), NKV_CCI_STATUS_SUCCESS);
    ASSERT_EQ(activate(slot), NKV_CCI_STATUS_SUCCESS);
    card.power_on();
    ASSERT_EQ(card.boot.slot, slot);
    card.execute(NKV_CCI_OPCODE_GET_HEALTH);
  }
  [[nodiscard]] bool runs(const std::vector<std::uint8_t>& image) const {
    return std::ranges::equal(image, std::span(card.memory).first(image.size()));
  }
  Answer info() { return card.execute(NKV_CCI_OPCODE_GET_FIRMWARE); }
  std::string revision(unsigned slot) { return info().text(std::size_t{16} * slot, 16); }

  Card card;
  const std::vector<std::uint8_t> one = image_of(1, 9'001);
  const std::vector<std::uint8_t> two = image_of(2, 13'312);
  const std::vector<std::uint8_t> file_one = sign_image(one, "one");
  const std::vector<std::uint8_t> file_two = sign_image(two, "two");
};

TEST_F(Update, StartsWithWhatIsBuiltIn) {
  EXPECT_TRUE(runs(card.built_in));
  EXPECT_EQ(info().number(0, 1), unsigned{NKV_FLASH_SLOTS});
  EXPECT_EQ(info().number(1, 1), 0U) << "no slot is active or staged";
  EXPECT_EQ(info().number(2, 1), 1U) << "a restart is enough";
  EXPECT_EQ(revision(1), "");
}

TEST_F(Update, StartsAnImageThatIsSigned) {
  ASSERT_EQ(install(file_one, 1), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(revision(1), "one");
  EXPECT_EQ(card.restarts, 0U);
  ASSERT_EQ(activate(1), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(card.restarts, 1U);
  EXPECT_EQ(info().number(1, 1), 1U << 3) << "slot 1 is staged";
  card.power_on();
  EXPECT_TRUE(runs(one));
  EXPECT_EQ(info().number(1, 1), 1U) << "slot 1 is active";
  const Answer background = card.execute(NKV_CCI_OPCODE_GET_BACKGROUND);
  EXPECT_EQ(background.number(2, 2), unsigned{NKV_CCI_OPCODE_ACTIVATE_FIRMWARE});
  EXPECT_EQ(background.number(4, 2), unsigned{NKV_CCI_STATUS_SUCCESS});
}

TEST_F(Update, StartsAnImageWithTheNextResetIfThatIsWanted) {
  ASSERT_EQ(install(file_one, 1), NKV_CCI_STATUS_SUCCESS);
  ASSERT_EQ(activate(1, false), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(card.restarts, 0U);
  EXPECT_TRUE(runs(card.built_in));
  card.power_on();
  EXPECT_TRUE(runs(one));
}

TEST_F(Update, TakesTurnsBetweenTheSlots) {
  run(file_one, 1);
  run(file_two, 2);
  EXPECT_EQ(revision(1), "one");
  EXPECT_EQ(revision(2), "two");
  run(file_two, 1);
  EXPECT_EQ(revision(1), "two");
  EXPECT_EQ(activate(1), NKV_CCI_STATUS_INVALID_SLOT) << "it runs";
  EXPECT_EQ(activate(2), NKV_CCI_STATUS_SUCCESS) << "back to the other";
}

TEST_F(Update, NeverWritesTheSlotThatRuns) {
  run(file_one, 1);
  EXPECT_EQ(install(file_two, 1), NKV_CCI_STATUS_INVALID_SLOT);
  EXPECT_EQ(revision(1), "one");
  card.power_on();
  EXPECT_TRUE(runs(one));
}

TEST_F(Update, TakesTheLargestImageAndNoneThatIsLarger) {
  const auto largest = image_of(3, IMAGE_MOST_BYTES);
  run(sign_image(largest, "largest"), 1);
  EXPECT_TRUE(runs(largest));
  EXPECT_EQ(install(sign_image(image_of(3, IMAGE_MOST_BYTES + 1), "larger"), 2),
            NKV_CCI_STATUS_FIRMWARE_AUTHENTICATION_FAILED);
  EXPECT_EQ(install(sign_image(image_of(3, NKV_FLASH_SLOT_BYTES), "much larger"), 2),
            NKV_CCI_STATUS_INVALID_INPUT);
}

TEST_F(Update, RefusesAnImageThatIsNotAsItWasSigned) {
  run(file_one, 1);
  for (const std::size_t at : {0U, 5U, 8U, 30U, 64U, 127U, 128U, 191U, 192U, 5'000U}) {
    auto file = file_two;
    file[at] ^= 0x40;
    EXPECT_EQ(install(file, 2), NKV_CCI_STATUS_FIRMWARE_AUTHENTICATION_FAILED) << at;
    EXPECT_EQ(revision(2), "") << at;
    EXPECT_EQ(activate(2), NKV_CCI_STATUS_INVALID_SLOT) << at;
  }
  EXPECT_EQ(install(sign_image(two, "two", 1), 2), NKV_CCI_STATUS_FIRMWARE_AUTHENTICATION_FAILED)
      << "somebody else's";
  auto cut = file_two;
  cut.resize(cut.size() - 64);
  EXPECT_EQ(install(cut, 2), NKV_CCI_STATUS_FIRMWARE_AUTHENTICATION_FAILED);
  EXPECT_EQ(install({1, 2, 3}, 2), NKV_CCI_STATUS_FIRMWARE_AUTHENTICATION_FAILED);
  card.power_on();
  EXPECT_TRUE(runs(one));
}

TEST_F(Update, RefusesToStartWhatHasRottenInItsSlot) {
  ASSERT_EQ(install(file_one, 1), NKV_CCI_STATUS_SUCCESS);
  const std::array<std::byte, 64> zeros{};
  card.flash.write(NKV_FLASH_SLOTS_AT + 4'096, zeros);
  EXPECT_EQ(activate(1), NKV_CCI_STATUS_FIRMWARE_AUTHENTICATION_FAILED);
  card.power_on();
  EXPECT_TRUE(runs(card.built_in));
}

TEST_F(Update, GoesBackFromAnImageThatNeverAnswers) {
  run(file_one, 1);
  ASSERT_EQ(install(file_two, 2), NKV_CCI_STATUS_SUCCESS);
  ASSERT_EQ(activate(2), NKV_CCI_STATUS_SUCCESS);
  for (unsigned i = 0; i < NKV_BOOT_TRIES; ++i) {
    card.power_on();
    EXPECT_TRUE(runs(two)) << i;
  }
  card.power_on();
  EXPECT_TRUE(runs(one));
  EXPECT_EQ(finish(), NKV_CCI_STATUS_FIRMWARE_ROLLED_BACK);
  card.power_on();
  EXPECT_TRUE(runs(one));
  ASSERT_EQ(activate(2), NKV_CCI_STATUS_SUCCESS) << "another attempt";
  card.power_on();
  EXPECT_TRUE(runs(two));
}

TEST_F(Update, KeepsAnImageThatAnsweredOnce) {
  run(file_one, 1);
  run(file_two, 2);
  for (unsigned i = 0; i < 2 * NKV_BOOT_TRIES; ++i) {
    card.power_on();
    ASSERT_TRUE(runs(two)) << i;
  }
}

TEST_F(Update, GoesBackToWhatIsBuiltInWhenFlashMemoryHoldsNothingElse) {
  run(file_one, 1);
  card.flash.erase(NKV_FLASH_SLOTS_AT);
  card.power_on();
  EXPECT_TRUE(runs(card.built_in));
  EXPECT_EQ(finish(), NKV_CCI_STATUS_FIRMWARE_ROLLED_BACK);
}

TEST_F(Update, GoesBackToWhatIsBuiltInFromAnImageInTheSlotThatWasTrusted) {
  run(file_one, 1);
  card.flash.erase(NKV_FLASH_SLOTS_AT);
  card.power_on();
  ASSERT_TRUE(runs(card.built_in));
  ASSERT_EQ(install(file_two, 1), NKV_CCI_STATUS_SUCCESS);
  ASSERT_EQ(activate(1), NKV_CCI_STATUS_SUCCESS);
  for (unsigned i = 0; i < NKV_BOOT_TRIES; ++i) {
    card.power_on();
    EXPECT_TRUE(runs(two)) << i;
  }
  card.power_on();
  EXPECT_TRUE(runs(card.built_in));
}

TEST_F(Update, WantsPartsInTheirOrder) {
  const auto whole = std::span(file_one);
  const auto send = [&](unsigned action, std::size_t offset, std::size_t bytes = 1'024,
                        unsigned slot = 1) {
    return card
        .execute(NKV_CCI_OPCODE_TRANSFER_FIRMWARE,
                 part(action, slot, offset, whole.subspan(offset, bytes)))
        .status;
  };
  EXPECT_EQ(send(NKV_CCI_TRANSFER_CONTINUE, 0), NKV_CCI_STATUS_FIRMWARE_TRANSFER_OUT_OF_ORDER);
  EXPECT_EQ(send(NKV_CCI_TRANSFER_END, 0), NKV_CCI_STATUS_FIRMWARE_TRANSFER_OUT_OF_ORDER);
  EXPECT_EQ(send(NKV_CCI_TRANSFER_INITIATE, 1'024), NKV_CCI_STATUS_INVALID_INPUT);
  EXPECT_EQ(send(NKV_CCI_TRANSFER_INITIATE, 0, 100), NKV_CCI_STATUS_INVALID_INPUT);
  EXPECT_EQ(send(5, 0), NKV_CCI_STATUS_INVALID_INPUT);
  ASSERT_EQ(send(NKV_CCI_TRANSFER_INITIATE, 0), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(send(NKV_CCI_TRANSFER_INITIATE, 0), NKV_CCI_STATUS_FIRMWARE_TRANSFER_IN_PROGRESS);
  EXPECT_EQ(send(NKV_CCI_TRANSFER_FULL, 0), NKV_CCI_STATUS_FIRMWARE_TRANSFER_IN_PROGRESS);
  EXPECT_EQ(activate(1), NKV_CCI_STATUS_FIRMWARE_TRANSFER_IN_PROGRESS);
  EXPECT_EQ(send(NKV_CCI_TRANSFER_CONTINUE, 2'048), NKV_CCI_STATUS_FIRMWARE_TRANSFER_OUT_OF_ORDER);
  EXPECT_EQ(send(NKV_CCI_TRANSFER_CONTINUE, 1'024), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(send(NKV_CCI_TRANSFER_CONTINUE, 1'024), NKV_CCI_STATUS_FIRMWARE_TRANSFER_OUT_OF_ORDER);
  EXPECT_EQ(send(NKV_CCI_TRANSFER_END, 2'048, 1'024, 2), NKV_CCI_STATUS_INVALID_SLOT);
  EXPECT_EQ(send(NKV_CCI_TRANSFER_ABORT, 0), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(send(NKV_CCI_TRANSFER_CONTINUE, 2'048), NKV_CCI_STATUS_FIRMWARE_TRANSFER_OUT_OF_ORDER);
  ASSERT_EQ(install(file_one, 1), NKV_CCI_STATUS_SUCCESS);
}

TEST_F(Update, ForgetsAHostThatIsGone) {
  const auto first = std::span(file_one).first(1'024);
  ASSERT_EQ(
      card.execute(NKV_CCI_OPCODE_TRANSFER_FIRMWARE, part(NKV_CCI_TRANSFER_INITIATE, 1, 0, first))
          .status,
      NKV_CCI_STATUS_SUCCESS);
  card.uptime_ns += 31 * kSecondNs;
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_TRANSFER_FIRMWARE,
                         part(NKV_CCI_TRANSFER_CONTINUE, 1, 1'024, first))
                .status,
            NKV_CCI_STATUS_ABORTED);
  ASSERT_EQ(install(file_one, 1), NKV_CCI_STATUS_SUCCESS);
}

TEST_F(Update, DoesOneThingAtATime) {
  ASSERT_EQ(transfer(card, file_one, 1), NKV_CCI_STATUS_BACKGROUND_STARTED);
  EXPECT_EQ(transfer(card, file_one, 1), NKV_CCI_STATUS_BUSY);
  EXPECT_EQ(start(card, 1, true), NKV_CCI_STATUS_BUSY);
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_SANITIZE).status, NKV_CCI_STATUS_BUSY);
  EXPECT_EQ(finish(), NKV_CCI_STATUS_SUCCESS);
}

TEST_F(Update, RefusesWhatThereIsNotToStart) {
  EXPECT_EQ(activate(0), NKV_CCI_STATUS_INVALID_SLOT);
  EXPECT_EQ(activate(1), NKV_CCI_STATUS_INVALID_SLOT) << "empty";
  EXPECT_EQ(activate(3), NKV_CCI_STATUS_INVALID_SLOT);
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_ACTIVATE_FIRMWARE, Payload().number(0x102, 2)).status,
            NKV_CCI_STATUS_INVALID_INPUT);
}

TEST_F(Update, IsNoCommandOfACardWithoutFlashMemory) {
  card.flash.cut_power_after(0);
  card.flash.erase(0);
  card.start();
  EXPECT_TRUE(runs(card.built_in));
  EXPECT_EQ(info().status, NKV_CCI_STATUS_UNSUPPORTED);
  EXPECT_EQ(transfer(card, file_one, 1), NKV_CCI_STATUS_UNSUPPORTED);
  EXPECT_EQ(activate(1), NKV_CCI_STATUS_UNSUPPORTED);
}

/// From an image that runs to the next, power fails at each change of flash memory in turn.
TEST_F(Update, SurvivesAPowerCutAtEachChangeOfFlashMemory) {
  unsigned cuts = 0;
  unsigned came_up_new = 0;
  for (bool is_done = false; !is_done; ++cuts) {
    card.flash = emulator::Flash();
    card.power_on();
    run(file_one, 1);
    card.flash.cut_power_after(cuts);
    if (install(file_two, 2) == NKV_CCI_STATUS_SUCCESS) (void)activate(2);
    card.execute(NKV_CCI_OPCODE_GET_HEALTH);
    is_done = card.flash.has_power();
    card.power_on();
    const bool is_new = runs(two);
    ASSERT_TRUE(is_new || runs(one)) << "after " << cuts << " changes";
    card.execute(NKV_CCI_OPCODE_GET_HEALTH);
    card.power_on();
    ASSERT_EQ(is_new, runs(two)) << "it stays with what came up, after " << cuts << " changes";
    came_up_new += is_new ? 1U : 0U;
    if (!is_new) run(file_two, 2);
  }
  EXPECT_GT(cuts, file_two.size() / 64);
  EXPECT_GE(came_up_new, 1U);
  EXPECT_LT(came_up_new, cuts);
}

/// The next image comes before the one that runs has answered anything else.
TEST_F(Update, OverwritesNothingThatTheCardMayGoBackTo) {
  for (unsigned cut = 0; cut < 5; ++cut) {
    card.flash = emulator::Flash();
    card.power_on();
    run(file_one, 1);
    ASSERT_EQ(install(file_two, 2), NKV_CCI_STATUS_SUCCESS);
    ASSERT_EQ(activate(2), NKV_CCI_STATUS_SUCCESS);
    card.power_on();
    card.flash.cut_power_after(cut);
    (void)transfer(card, file_two, 1);
    for (unsigned start = 0; start <= NKV_BOOT_TRIES; ++start) {
      card.power_on();
      ASSERT_TRUE(runs(one) || runs(two)) << "after " << cut << " changes, start " << start;
    }
  }
}

/// The starts of an image on trial change flash memory, too.
TEST_F(Update, SurvivesAPowerCutAtEachStart) {
  for (unsigned cut = 0; cut < 2 * NKV_BOOT_TRIES + 4; ++cut) {
    card.flash = emulator::Flash();
    card.power_on();
    run(file_one, 1);
    ASSERT_EQ(install(file_two, 2), NKV_CCI_STATUS_SUCCESS);
    ASSERT_EQ(activate(2, false), NKV_CCI_STATUS_SUCCESS);
    card.flash.cut_power_after(cut);
    for (unsigned start = 0; start < NKV_BOOT_TRIES + 2; ++start) {
      card.start();
      ASSERT_TRUE(runs(one) || runs(two) || runs(card.built_in)) << cut;
      if (card.flash.has_power()) continue;
      card.power_on();
      ASSERT_TRUE(runs(one) || runs(two)) << cut;
    }
    card.execute(NKV_CCI_OPCODE_GET_HEALTH);
    card.power_on();
    ASSERT_TRUE(runs(one)) << "it never answered in time, " << cut;
  }
}

}  // namespace
}  // namespace nearkv::testing
