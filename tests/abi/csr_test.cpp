// The generated CSR block, cycle by cycle: what software reads and writes, what hardware sees.
#include <gtest/gtest.h>
#include <verilated.h>

#include <cstdint>
#include <memory>
#include <random>
#include <set>

#include "Vnkv_csr.h"
#include "nkv_abi.h"

namespace nearkv::abi_test {
namespace {

constexpr std::uint32_t kQueues = 16;
constexpr std::uint64_t kAllOnes = ~std::uint64_t{0};

/// A writable register of each queue, the bits that it keeps, and what hardware sees of it.
struct QueueRegister {
  const char* name;
  std::uint32_t offset_bytes;
  std::uint64_t kept_bits;
  std::uint64_t (*hardware_value)(const Vnkv_csr&, unsigned queue);
};

constexpr QueueRegister kQueueRegisters[] = {
    {"SQ_BASE", 0x1000, kAllOnes,
     [](const Vnkv_csr& b, unsigned queue) -> std::uint64_t { return b.reg2hw_sq_base_o[queue]; }},
    {"CQ_BASE", 0x1008, kAllOnes,
     [](const Vnkv_csr& b, unsigned queue) -> std::uint64_t { return b.reg2hw_cq_base_o[queue]; }},
    {"RING_ENTRIES", 0x1010, kAllOnes,
     [](const Vnkv_csr& b, unsigned queue) -> std::uint64_t {
       return b.reg2hw_ring_entries_o[queue];
     }},
    {"QUEUE_CONTROL", 0x1018, 1,
     [](const Vnkv_csr& b, unsigned queue) -> std::uint64_t {
       return b.reg2hw_queue_control_enable_o[queue];
     }},
    {"SQ_TAIL", 0x1020, kAllOnes,
     [](const Vnkv_csr& b, unsigned queue) -> std::uint64_t { return b.reg2hw_sq_tail_o[queue]; }},
    {"CQ_HEAD", 0x1028, kAllOnes,
     [](const Vnkv_csr& b, unsigned queue) -> std::uint64_t { return b.reg2hw_cq_head_o[queue]; }},
    {"WINDOW_BASE", 0x1030, kAllOnes,
     [](const Vnkv_csr& b, unsigned queue) -> std::uint64_t {
       return b.reg2hw_window_base_o[queue];
     }},
    {"WINDOW_BYTES", 0x1038, kAllOnes,
     [](const Vnkv_csr& b, unsigned queue) -> std::uint64_t {
       return b.reg2hw_window_bytes_o[queue];
     }},
    {"TENANT", 0x1040, 0xFFFF,
     [](const Vnkv_csr& b, unsigned queue) -> std::uint64_t {
       return b.reg2hw_tenant_number_o[queue];
     }},
    {"WEIGHT", 0x1050, 0xF,
     [](const Vnkv_csr& b, unsigned queue) -> std::uint64_t {
       return b.reg2hw_weight_share_o[queue];
     }},
    {"COALESCE", 0x1058, 0xFFFFFFFFFFFF,
     [](const Vnkv_csr& b, unsigned queue) -> std::uint64_t {
       return std::uint64_t{b.reg2hw_coalesce_wait_ticks_o[queue]} << 16U |
              b.reg2hw_coalesce_completions_o[queue];
     }},
};

constexpr std::uint32_t in_queue(std::uint32_t offset_bytes, std::uint32_t queue) {
  return offset_bytes + 0x80 * queue;
}

/// Where the contract has registers, as the tests' own reading of it says.
const std::set<std::uint32_t>& register_offsets() {
  static const std::set<std::uint32_t> offsets = {
#include "registers.inc"
  };
  return offsets;
}

class Csr : public ::testing::Test {
 protected:
  struct Answer {
    std::uint64_t data;
    bool error;
  };

  Csr() { reset(); }
  ~Csr() override { csr_->final(); }

  void reset() {
    csr_->rst_ni = 0;
    tick();
    csr_->rst_ni = 1;
    tick();
  }

  void tick() {
    csr_->clk_i = 0;
    csr_->eval();
    csr_->clk_i = 1;
    csr_->eval();
  }

  /// One access of one cycle; the answer is there when it ends.
  Answer access(bool is_write, std::uint32_t offset_bytes, std::uint64_t data) {
    csr_->req_i = 1;
    csr_->we_i = is_write ? 1 : 0;
    csr_->addr_i = offset_bytes;
    csr_->wdata_i = data;
    tick();
    csr_->req_i = 0;
    csr_->we_i = 0;
    return {csr_->rdata_o, csr_->error_o != 0};
  }

  std::uint64_t read(std::uint32_t offset_bytes) {
    const Answer answer = access(false, offset_bytes, 0);
    EXPECT_FALSE(answer.error) << "read of " << offset_bytes;
    return answer.data;
  }

  void write(std::uint32_t offset_bytes, std::uint64_t data) {
    EXPECT_FALSE(access(true, offset_bytes, data).error) << "write of " << offset_bytes;
  }

  VerilatedContext context_;
  std::unique_ptr<Vnkv_csr> csr_ = std::make_unique<Vnkv_csr>(&context_);
  std::mt19937_64 random_{1};
};

TEST_F(Csr, ConstantsReadAsTheContractSays) {
  EXPECT_EQ(read(NKV_REG_ID), 0x00564B5241454E01U);
  EXPECT_EQ(read(NKV_REG_ABI), NKV_ABI_MAJOR | NKV_ABI_MINOR << NKV_REG_ABI_MINOR_SHIFT);
}

TEST_F(Csr, WhatSoftwareWritesStartsAtZero) {
  EXPECT_EQ(read(NKV_REG_CONTROL), 0U);
  for (const QueueRegister& item : kQueueRegisters) {
    for (std::uint32_t queue = 0; queue < kQueues; ++queue) {
      EXPECT_EQ(read(in_queue(item.offset_bytes, queue)), 0U) << item.name << " " << queue;
      EXPECT_EQ(item.hardware_value(*csr_, queue), 0U) << item.name << " " << queue;
    }
  }
}

TEST_F(Csr, EveryQueueKeepsItsOwnValues) {
  std::uint64_t values[std::size(kQueueRegisters)][kQueues];
  for (std::size_t i = 0; i < std::size(kQueueRegisters); ++i) {
    for (std::uint32_t queue = 0; queue < kQueues; ++queue) {
      values[i][queue] = random_();
      write(in_queue(kQueueRegisters[i].offset_bytes, queue), values[i][queue]);
    }
  }
  for (std::size_t i = 0; i < std::size(kQueueRegisters); ++i) {
    const QueueRegister& item = kQueueRegisters[i];
    for (std::uint32_t queue = 0; queue < kQueues; ++queue) {
      const std::uint64_t kept = values[i][queue] & item.kept_bits;
      EXPECT_EQ(read(in_queue(item.offset_bytes, queue)), kept) << item.name << " " << queue;
      EXPECT_EQ(item.hardware_value(*csr_, queue), kept) << item.name << " " << queue;
    }
  }
}

TEST_F(Csr, BitsWithoutAFieldReadZero) {
  for (const QueueRegister& item : kQueueRegisters) {
    write(in_queue(item.offset_bytes, 7), kAllOnes);
    EXPECT_EQ(read(in_queue(item.offset_bytes, 7)), item.kept_bits) << item.name;
  }
}

TEST_F(Csr, ReadOnlyRegistersShowTheDeviceAndIgnoreWrites) {
  csr_->hw2reg_features_i = 0x3F;
  csr_->hw2reg_memory_bytes_i = 0x0123456789ABCDEF;
  csr_->hw2reg_limits_queues_i = 0x11;
  csr_->hw2reg_limits_group_i = 0x22;
  csr_->hw2reg_limits_head_dim_i = 0x3344;
  csr_->hw2reg_limits_top_k_i = 0x5566;
  csr_->hw2reg_tick_hz_i = 250000000;
  csr_->hw2reg_device_status_fatal_i = 1;
  csr_->hw2reg_queue_status_refused_i[5] = 1;
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(read(NKV_REG_FEATURES), 0x3FU);
    EXPECT_EQ(read(NKV_REG_MEMORY_BYTES), 0x0123456789ABCDEFU);
    EXPECT_EQ(read(NKV_REG_LIMITS), 0x0000556633442211U);
    EXPECT_EQ(read(NKV_REG_TICK_HZ), 250000000U);
    EXPECT_EQ(read(NKV_REG_DEVICE_STATUS), NKV_REG_DEVICE_STATUS_FATAL_MASK);
    EXPECT_EQ(read(NKV_REG_QUEUE_STATUS(5U)), NKV_REG_QUEUE_STATUS_REFUSED_MASK);
    EXPECT_EQ(read(NKV_REG_QUEUE_STATUS(6U)), 0U);
    for (const std::uint32_t offset :
         {NKV_REG_ID, NKV_REG_ABI, NKV_REG_FEATURES, NKV_REG_MEMORY_BYTES, NKV_REG_LIMITS,
          NKV_REG_TICK_HZ, NKV_REG_DEVICE_STATUS, NKV_REG_QUEUE_STATUS(5U)}) {
      write(offset, kAllOnes);
    }
  }
  csr_->hw2reg_device_status_fatal_i = 0;
  csr_->hw2reg_device_status_ready_i = 1;
  csr_->hw2reg_queue_status_refused_i[5] = 0;
  csr_->hw2reg_queue_status_running_i[5] = 1;
  EXPECT_EQ(read(NKV_REG_DEVICE_STATUS), NKV_REG_DEVICE_STATUS_READY_MASK);
  EXPECT_EQ(read(NKV_REG_QUEUE_STATUS(5U)), NKV_REG_QUEUE_STATUS_RUNNING_MASK);
  EXPECT_EQ(read(NKV_REG_ID), NKV_ABI_ID);
}

TEST_F(Csr, SingleRegistersKeepTheirFields) {
  struct Kept {
    std::uint32_t offset;
    std::uint64_t bits;
  };
  for (const Kept& kept :
       {Kept{NKV_REG_INTERRUPT_MASK, 0x7FFFF}, Kept{NKV_REG_ERROR_HEAD, 0xFFFF},
        Kept{NKV_REG_INLINE_CONTROL, 0x7FFF}, Kept{NKV_REG_INLINE_LIMITS, 0xFFFFFFFFFFFF},
        Kept{NKV_REG_INLINE_LOAD, 0xFFFFFFFF}, Kept{NKV_REG_DOORBELL_BASE, kAllOnes},
        Kept{NKV_REG_DOORBELL_ENABLE, 0xFFFF}}) {
    EXPECT_EQ(read(kept.offset), 0U) << kept.offset;
    write(kept.offset, kAllOnes);
    EXPECT_EQ(read(kept.offset), kept.bits) << kept.offset;
  }
  write(NKV_REG_CONTROL, NKV_REG_CONTROL_RESET_MASK);
  EXPECT_EQ(read(NKV_REG_ERROR_HEAD), 0U);
  EXPECT_EQ(read(NKV_REG_DOORBELL_ENABLE), 0U);
  EXPECT_EQ(read(NKV_REG_INTERRUPT_MASK), 0x7FFFFU);
}

TEST_F(Csr, ExternalRegistersAnswerWithWhatTheirKeeperSays) {
  for (const std::uint32_t offset :
       {NKV_REG_INTERRUPT_STATUS, NKV_REG_ERROR_ENTRY(15U), NKV_REG_TOTAL_BUSY_TICKS(3U),
        NKV_REG_HOST_HOTNESS(2047U), NKV_REG_NEAR_HOTNESS(0U)}) {
    csr_->external_rdata_i = random_();
    EXPECT_EQ(read(offset), csr_->external_rdata_i) << offset;
    EXPECT_EQ(access(true, offset, kAllOnes).data, 0U) << offset;
  }
  EXPECT_EQ(read(NKV_REG_ID), NKV_ABI_ID);
}

TEST_F(Csr, ResetIsAPulseOfOneCycleThatReadsZero) {
  write(NKV_REG_CONTROL, NKV_REG_CONTROL_RESET_MASK);
  EXPECT_EQ(csr_->reg2hw_control_reset_o, 1);
  tick();
  EXPECT_EQ(csr_->reg2hw_control_reset_o, 0);
  EXPECT_EQ(read(NKV_REG_CONTROL), 0U);

  write(NKV_REG_CONTROL, kAllOnes & ~NKV_REG_CONTROL_RESET_MASK);
  EXPECT_EQ(csr_->reg2hw_control_reset_o, 0) << "writing 0 resets nothing";

  write(NKV_REG_SQ_TAIL(0U), kAllOnes);
  EXPECT_EQ(csr_->reg2hw_control_reset_o, 0) << "nor does another register";
}

TEST_F(Csr, ResetDisablesEveryQueueAndLeavesTheRest) {
  for (std::uint32_t queue = 0; queue < kQueues; ++queue) {
    write(NKV_REG_QUEUE_CONTROL(queue), 1);
    write(NKV_REG_SQ_BASE(queue), 0x1000 + queue);
  }
  write(NKV_REG_CONTROL, 0);
  EXPECT_EQ(read(NKV_REG_QUEUE_CONTROL(3U)), 1U) << "writing 0 disables nothing";

  write(NKV_REG_CONTROL, NKV_REG_CONTROL_RESET_MASK);
  for (std::uint32_t queue = 0; queue < kQueues; ++queue) {
    EXPECT_EQ(csr_->reg2hw_queue_control_enable_o[queue], 0)
        << "already while the pulse is high, queue " << queue;
  }
  for (std::uint32_t queue = 0; queue < kQueues; ++queue) {
    EXPECT_EQ(read(NKV_REG_QUEUE_CONTROL(queue)), 0U);
    EXPECT_EQ(read(NKV_REG_SQ_BASE(queue)), 0x1000U + queue);
  }
}

TEST_F(Csr, OnlyTheExactOffsetsOfRegistersAnswer) {
  for (std::uint32_t offset = 0; offset < 0x4000; ++offset) {
    const Answer answer = access(false, offset, 0);
    ASSERT_EQ(answer.error, !register_offsets().contains(offset)) << "offset " << offset;
    if (answer.error) {
      ASSERT_EQ(answer.data, 0U);
    }
  }
  for (std::uint32_t bit = 13; bit < 32; ++bit) {
    for (const std::uint32_t offset : {NKV_REG_SQ_BASE(0U) | 1U << bit, 1U << bit}) {
      EXPECT_EQ(access(false, offset, 0).error, !register_offsets().contains(offset)) << offset;
    }
  }
}

TEST_F(Csr, AWriteToAnUnknownOrMisalignedOffsetChangesNothing) {
  for (std::uint32_t offset = 0; offset < 0x2000; ++offset) {
    if (!register_offsets().contains(offset)) {
      ASSERT_TRUE(access(true, offset, kAllOnes).error) << "offset " << offset;
      ASSERT_EQ(csr_->reg2hw_control_reset_o, 0) << "offset " << offset;
    }
  }
  for (const QueueRegister& item : kQueueRegisters) {
    for (std::uint32_t queue = 0; queue < kQueues; ++queue) {
      EXPECT_EQ(read(in_queue(item.offset_bytes, queue)), 0U) << item.name << " " << queue;
    }
  }
}

TEST_F(Csr, TheAnswerStaysUntilThatOfTheNextAccess) {
  read(NKV_REG_ID);
  for (int cycle = 0; cycle < 5; ++cycle) {
    tick();
    EXPECT_EQ(csr_->rdata_o, NKV_ABI_ID);
  }
  EXPECT_TRUE(access(false, 0x98, 0).error);
  tick();
  EXPECT_EQ(csr_->error_o, 1);
  EXPECT_FALSE(access(true, NKV_REG_SQ_BASE(0U), 1).error);
}

TEST_F(Csr, NothingHappensWithoutARequest) {
  csr_->req_i = 0;
  csr_->we_i = 1;
  csr_->addr_i = NKV_REG_SQ_BASE(0U);
  csr_->wdata_i = kAllOnes;
  tick();
  EXPECT_EQ(read(NKV_REG_SQ_BASE(0U)), 0U);
}

TEST_F(Csr, TheResetLineClearsEverything) {
  for (const QueueRegister& item : kQueueRegisters) {
    write(in_queue(item.offset_bytes, 15), kAllOnes);
  }
  reset();
  EXPECT_EQ(csr_->rdata_o, 0U);
  for (const QueueRegister& item : kQueueRegisters) {
    EXPECT_EQ(read(in_queue(item.offset_bytes, 15)), 0U) << item.name;
  }
}

}  // namespace
}  // namespace nearkv::abi_test
