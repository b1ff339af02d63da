// Bridge and function before a driver that is right, and one that writes nonsense.
#include "function/function.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "function/bridge.hpp"
#include "support/devices.hpp"
#include "support/seed.hpp"

namespace nearkv::test {
namespace {

using emulator::Bridge;
using emulator::Function;
using namespace std::chrono_literals;

constexpr std::uint64_t kSerial = 0x1234;
constexpr std::uint64_t kRingBytes = std::uint64_t{NKV_MIN_RING_ENTRIES} * NKV_COMMAND_BYTES;
constexpr std::uint64_t kDoorbells = 1 << 20;

class FunctionTest : public testing::Test {
 protected:
  void SetUp() override { start("model:?memory=2MiB"); }

  void start(const std::string& uri) {
    bridge_.reset();
    function_.reset();
    device_ = open_or_throw(uri);
    function_ = std::make_unique<Function>(device_.get(),
                                           [this](unsigned vector) { told_.push_back(vector); });
    bridge_ = std::make_unique<Bridge>(std::span(shared_), function_.get(), kSerial);
  }

  nkv_card_bridge& page() { return *reinterpret_cast<nkv_card_bridge*>(shared_.data()); }

  std::uint64_t ask(std::uint8_t operation, std::uint64_t address, std::uint64_t value = 0,
                    std::uint64_t bytes = 0) {
    page().operation = operation;
    page().address = address;
    page().value = value;
    page().bytes = bytes;
    ++page().request;
    EXPECT_TRUE(bridge_->serve());
    EXPECT_EQ(page().answer, page().request);
    EXPECT_FALSE(bridge_->serve());
    return page().value;
  }
  std::uint64_t read(std::uint32_t offset) { return ask(NKV_CARD_OPERATION_READ, offset); }
  void write(std::uint32_t offset, std::uint64_t value) {
    ask(NKV_CARD_OPERATION_WRITE, offset, value);
  }

  /// A queue whose rings stand at the start of memory, and its doorbell. Its submission ring says
  /// NOP everywhere, in the first round.
  void enable(unsigned i) {
    for (unsigned entry = 0; entry < NKV_MIN_RING_ENTRIES; ++entry) {
      command(i, entry) = {};
      command(i, entry).flags = NKV_SLOT_FLAG_PHASE;
    }
    write(NKV_REG_DOORBELL_BASE, kDoorbells);
    write(NKV_REG_DOORBELL_ENABLE, read(NKV_REG_DOORBELL_ENABLE) | 1ULL << i);
    write(NKV_REG_SQ_BASE(i), i * 2 * kRingBytes);
    write(NKV_REG_CQ_BASE(i), (i * 2 + 1) * kRingBytes);
    write(NKV_REG_RING_ENTRIES(i), NKV_MIN_RING_ENTRIES);
    write(NKV_REG_WINDOW_BASE(i), 0);
    write(NKV_REG_WINDOW_BYTES(i), 1 << 20);
    write(NKV_REG_SQ_TAIL(i), 0);
    write(NKV_REG_CQ_HEAD(i), 0);
    write(NKV_REG_QUEUE_CONTROL(i), NKV_REG_QUEUE_CONTROL_ENABLE_MASK);
    EXPECT_EQ(read(NKV_REG_QUEUE_STATUS(i)), 0U) << "a card takes cycles to decide";
    ASSERT_EQ(read(NKV_REG_QUEUE_STATUS(i)), NKV_REG_QUEUE_STATUS_RUNNING_MASK);
  }

  nkv_doorbell_line& doorbell(unsigned i) {
    return *reinterpret_cast<nkv_doorbell_line*>(device_->memory().data() + kDoorbells +
                                                 i * NKV_DOORBELL_STRIDE_BYTES);
  }

  nkv_pages_command& command(unsigned queue, unsigned entry) {
    return reinterpret_cast<nkv_pages_command*>(device_->memory().data() +
                                                queue * 2 * kRingBytes)[entry];
  }

  std::uint8_t status(unsigned queue, unsigned entry) {
    nkv_completion completion{};
    std::memcpy(
        &completion,
        device_->memory().data() + (queue * 2 + 1) * kRingBytes + entry * sizeof(completion),
        sizeof(completion));
    return completion.phase == 1 ? completion.status : 0xFF;
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Function> function_;
  alignas(64) std::array<std::byte, NKV_CARD_SHARED_BYTES> shared_{};
  std::unique_ptr<Bridge> bridge_;
  std::vector<unsigned> told_;
};

TEST_F(FunctionTest, SaysWhatItIs) {
  EXPECT_EQ(page().magic, NKV_CARD_BRIDGE_MAGIC);
  EXPECT_EQ(page().version, NKV_CARD_BRIDGE_VERSION);
  EXPECT_EQ(page().serial, kSerial);
  EXPECT_EQ(read(NKV_REG_ID), NKV_ABI_ID);
  EXPECT_EQ(read(NKV_REG_MEMORY_BYTES), 2U << 20);
  EXPECT_NE(read(NKV_REG_FEATURES) & NKV_FEATURE_MEMORY_DOORBELLS, 0U);
  EXPECT_EQ(read(NKV_REG_MAP_BYTES), ~0ULL);
  const std::uint64_t before = page().heartbeat;
  bridge_->beat();
  EXPECT_EQ(page().heartbeat, before + 1);
}

TEST_F(FunctionTest, ADoorbellRunsCommandsAndTellsOfThemOnce) {
  enable(3);
  EXPECT_FALSE(function_->run(0ns));
  doorbell(3).sq_tail = 2;
  EXPECT_TRUE(function_->run(1s));
  EXPECT_EQ(status(3, 0), NKV_STATUS_OK);
  EXPECT_EQ(status(3, 1), NKV_STATUS_OK);
  EXPECT_EQ(status(3, 2), 0xFF);
  EXPECT_EQ(told_, std::vector<unsigned>{3 + 3});
  EXPECT_FALSE(function_->run(0ns));
  EXPECT_EQ(told_.size(), 1U);
}

TEST_F(FunctionTest, TellsOfErrorsBesideTheQueue) {
  enable(3);
  command(3, 0).opcode = 0xFF;
  doorbell(3).sq_tail = 2;
  EXPECT_TRUE(function_->run(1s));
  EXPECT_NE(status(3, 0), NKV_STATUS_OK);
  EXPECT_EQ(status(3, 1), NKV_STATUS_OK);
  EXPECT_EQ(told_, (std::vector<unsigned>{NKV_REG_INTERRUPT_STATUS_ERRORS_SHIFT, 3 + 3}));
}

TEST_F(FunctionTest, AFullCompletionRingGoesOnWhenItIsRead) {
  enable(0);
  doorbell(0).sq_tail = NKV_MIN_RING_ENTRIES;
  EXPECT_TRUE(function_->run(1s));
  command(0, 0).flags = 0;  // Of the second round.
  doorbell(0).sq_tail = NKV_MIN_RING_ENTRIES + 1;
  function_->run(1ms);
  EXPECT_EQ(status(0, 0), NKV_STATUS_OK);  // Of the first round, unread.
  doorbell(0).cq_head = 1;
  EXPECT_TRUE(function_->run(1s));
  EXPECT_EQ(status(0, 0), 0xFF);  // The second round's phase.
  EXPECT_EQ(told_.size(), 2U);
}

TEST_F(FunctionTest, ADoorbellThatIsNotEnabledIsMemory) {
  enable(1);
  write(NKV_REG_DOORBELL_ENABLE, 0);
  doorbell(1).sq_tail = 1;
  EXPECT_FALSE(function_->run(1ms));
  EXPECT_EQ(status(1, 0), 0xFF);
  // What stands there when it is enabled has not rung.
  write(NKV_REG_DOORBELL_ENABLE, 1 << 1);
  EXPECT_FALSE(function_->run(1ms));
  doorbell(1).sq_tail = 2;
  EXPECT_TRUE(function_->run(1s));
}

TEST_F(FunctionTest, AResetForgetsQueuesAndDoorbells) {
  enable(2);
  write(NKV_REG_CONTROL, NKV_REG_CONTROL_RESET_MASK);
  EXPECT_EQ(read(NKV_REG_DOORBELL_ENABLE), 0U);
  doorbell(2).sq_tail = 1;
  EXPECT_FALSE(function_->run(1ms));
  EXPECT_TRUE(told_.empty());
}

TEST_F(FunctionTest, WipesWhatItIsToldAndNothingElse) {
  std::ranges::fill(device_->memory(), std::byte{0x77});
  ask(NKV_CARD_OPERATION_WIPE, 8192, 0, 4096);
  for (std::size_t i = 0; i < device_->memory().size(); ++i) {
    ASSERT_EQ(device_->memory()[i], i / 4096 == 2 ? std::byte{0} : std::byte{0x77}) << i;
  }
  ask(NKV_CARD_OPERATION_WIPE, 2 << 20, 0, 1);
  ask(NKV_CARD_OPERATION_WIPE, ~0ULL, 0, ~0ULL);
  ask(NKV_CARD_OPERATION_WIPE, 4096, 0, ~0ULL);
  EXPECT_EQ(device_->memory()[4096], std::byte{0x77});
}

TEST_F(FunctionTest, SurvivesADriverThatWritesNonsense) {
  Random random = case_random(1);
  for (unsigned i = 0; i < 20000; ++i) {
    const std::uint64_t queue_register = 0x1000 + random() % 0x800 / 8 * 8;
    const std::uint64_t address = random() % 2 == 0 ? queue_register : random() % 0x40000;
    const std::uint64_t value = random() % 2 == 0 ? random() % 4096 * 64 : random();
    ask(static_cast<std::uint8_t>(random() % 5), address, value, random() % 8192);
    if (random() % 8 == 0) write(NKV_REG_DOORBELL_BASE, random() % 2 == 0 ? kDoorbells : value);
    auto& word = reinterpret_cast<std::uint64_t&>(
        device_->memory()[random() % (device_->memory().size() / 8) * 8]);
    word = random();
    function_->run(0ns);
  }
  write(NKV_REG_CONTROL, NKV_REG_CONTROL_RESET_MASK);
  std::ranges::fill(device_->memory(), std::byte{0});
  told_.clear();
  enable(5);
  doorbell(5).sq_tail = 1;
  EXPECT_TRUE(function_->run(1s));
  EXPECT_EQ(told_, std::vector<unsigned>{3 + 5});
}

// Disabled with commands in flight, it is RUNNING, but not as its registers say it is next.
TEST_F(FunctionTest, SurvivesAnotherSetupOfAQueueThatDrains) {
  std::unique_ptr<Device> device;
  std::string reason;
  if (open_device("rtl:", &device, &reason) != Status::kOk) GTEST_SKIP() << reason;
  for (const std::uint64_t entries : {0U, NKV_MIN_RING_ENTRIES + 0U}) {
    start("rtl:?memory=2MiB&latency=1000");
    enable(0);
    write(NKV_REG_SQ_TAIL(0), NKV_MIN_RING_ENTRIES - 1);
    write(NKV_REG_QUEUE_CONTROL(0), 0);
    ASSERT_EQ(read(NKV_REG_QUEUE_STATUS(0)), NKV_REG_QUEUE_STATUS_RUNNING_MASK);
    write(NKV_REG_RING_ENTRIES(0), entries);
    write(NKV_REG_CQ_BASE(0), 1ULL << 44);
    write(NKV_REG_QUEUE_CONTROL(0), NKV_REG_QUEUE_CONTROL_ENABLE_MASK);
    write(NKV_REG_SQ_TAIL(0), 1);
    EXPECT_FALSE(function_->run(0ns));
  }
}

}  // namespace
}  // namespace nearkv::test
