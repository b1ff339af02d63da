// Device memory behind a slice's AXI port: answers reads late and in any order, takes writes, and
// can be told to misbehave.
#ifndef NEARKV_EMULATOR_AXI_MEMORY_HPP_
#define NEARKV_EMULATOR_AXI_MEMORY_HPP_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>

#include "nkv_abi.h"

namespace nearkv::emulator {

/// How memory answers. Times are in cycles of the engine's clock.
struct MemoryTiming {
  unsigned latency_cycles = 60;  ///< From a read's address to its first beat, at the least.
  unsigned jitter_cycles = 0;    ///< Added to it, at random up to this much; answers overtake.
  unsigned stall_percent = 0;    ///< Of cycles, those that a channel lets pass, each for itself.
  std::uint64_t seed = 1;
};

/// When memory answers, where MemoryTiming does not say it. Accesses are numbered, reads and writes
/// each for themselves.
class AnswerTimes {
 public:
  AnswerTimes() = default;
  AnswerTimes(const AnswerTimes&) = delete;
  AnswerTimes& operator=(const AnswerTimes&) = delete;
  virtual ~AnswerTimes() = default;

  [[nodiscard]] virtual bool takes_reads() const = 0;
  [[nodiscard]] virtual bool takes_writes() const = 0;
  virtual void read(std::uint64_t number, std::uint64_t address) = 0;
  virtual void write(std::uint64_t number, std::uint64_t address) = 0;
  /// Of this cycle, if there is one.
  virtual std::optional<std::uint64_t> answered_read() = 0;
  virtual std::optional<std::uint64_t> answered_write() = 0;
  virtual void advance() = 0;
};

/// What goes wrong. Addresses are device addresses of bursts.
struct MemoryFaults {
  std::set<std::uint64_t> poisoned;  ///< Bursts that come with poison.
  std::uint64_t drop_read = 0;       ///< If not 0: this many-th read gets no answer.
  std::uint64_t drop_write = 0;      ///< So with writes; it is not done either.
  std::uint64_t drop_writes = 1;     ///< So many, from that one on.
  std::uint64_t refuse_write = 0;    ///< If not 0: this many-th write is answered with an error.
};

using Burst = std::array<std::uint32_t, 16>;

/// Which part of device memory a slice has: granules go round the slices, as nkv_slice_map has it.
struct SliceMap {
  static constexpr std::uint64_t kGranuleBytes = NKV_SLICE_GRANULE_BYTES;
  unsigned slice = 0;
  unsigned slices = 1;

  [[nodiscard]] static unsigned slice_of(std::uint64_t address, unsigned slices) {
    return static_cast<unsigned>(address / kGranuleBytes % slices);
  }
  /// Of an address in the slice's own memory.
  [[nodiscard]] std::uint64_t device_address(std::uint64_t local) const {
    return (local / kGranuleBytes * slices + slice) * kGranuleBytes + local % kGranuleBytes;
  }
};

/// One slice's memory; every access is one burst, its address in the slice. Each cycle: offer what
/// is asked for, take what is to be seen.
class AxiMemory {
 public:
  struct Read {
    std::uint16_t id;
    std::uint64_t address;
  };
  struct ReadBeat {
    std::uint16_t id;
    bool poison;
    bool error;  ///< Outside memory.
    Burst data;
  };
  struct Write {
    std::uint16_t id;
    std::uint64_t address;
    std::uint64_t strobes;
    Burst data;
  };
  struct Answer {
    std::uint16_t id;
    bool error;
  };

  /// `bytes`: of the whole device.
  AxiMemory(std::span<std::byte> bytes, MemoryTiming timing,
            std::unique_ptr<AnswerTimes> times = nullptr, SliceMap map = {});

  void set_faults(MemoryFaults faults) { faults_ = std::move(faults); }

  [[nodiscard]] std::uint64_t device_address(std::uint64_t local) const {
    return map_.device_address(local);
  }
  [[nodiscard]] bool takes_reads() const {
    return reads_.size() < kQueuedReads && (times_ == nullptr || times_->takes_reads());
  }
  [[nodiscard]] bool takes_writes() const { return times_ == nullptr || times_->takes_writes(); }
  void read(const Read& read);
  void write(const Write& write);

  /// The beat of this cycle, if there is one.
  bool next_beat(ReadBeat* beat);
  /// The write that memory has now, if there is one.
  bool next_answer(Answer* answer);

  void advance();

 private:
  static constexpr std::size_t kQueuedReads = 256;
  struct QueuedRead {
    Read read;
    std::uint64_t number;
    std::uint64_t ready_at;
  };
  struct QueuedWrite {
    Write write;
    std::uint64_t number;
    std::uint64_t ready_at;
  };

  [[nodiscard]] std::uint64_t answer_at();  // Of an access that is taken now, the least cycle.
  [[nodiscard]] std::deque<QueuedRead>::iterator answered_read();
  [[nodiscard]] std::deque<QueuedWrite>::iterator answered_write();
  void apply(const Write& write);
  /// Where a burst of the device lies; null outside memory.
  [[nodiscard]] std::byte* place_of(std::uint64_t local) const;

  std::span<std::byte> bytes_;
  MemoryTiming timing_;
  SliceMap map_;
  MemoryFaults faults_;
  std::mt19937_64 random_;
  std::uint64_t now_ = 0;
  std::unique_ptr<AnswerTimes> times_;
  std::deque<QueuedRead> reads_;
  std::deque<QueuedWrite> writes_;
  std::uint64_t reads_taken_ = 0;
  std::uint64_t writes_taken_ = 0;
};

}  // namespace nearkv::emulator

#endif  // NEARKV_EMULATOR_AXI_MEMORY_HPP_
