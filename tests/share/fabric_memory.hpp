// The library's view of a simulated host's cache, and the ways to break it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fabric/fabric.hpp"
#include "share/region.hpp"
#include "share/shared_memory.hpp"

namespace nearkv::test {

/// What a line of the region holds.
enum class Record : std::uint8_t {
  kNone,
  kHeader,
  kLine,
  kEntry,
  kAck,
  kLease,
  kMessage,
  kPayload,
  kWholeRegion,
};

/// One call that the protocol makes and a broken one leaves out.
struct Omission {
  enum class Call : std::uint8_t { kFlush, kInvalidate, kFenceAfterFlush, kFenceAfterInvalidate };
  Call call = Call::kFlush;
  Record record = Record::kNone;  ///< kNone, of a fence: the one that precedes a confirmation.

  bool operator==(const Omission&) const = default;
  [[nodiscard]] std::string name() const;
};

/// Which line of the region holds what.
class RecordMap {
 public:
  explicit RecordMap(const Region& region);

  [[nodiscard]] Record at(std::uint64_t address) const {
    return records_[address / NKV_BURST_BYTES];
  }

 private:
  std::vector<Record> records_;
};

class FabricMemory : public SharedMemory {
 public:
  /// `before_access` may throw, and may let other hosts run.
  FabricMemory(fabric::HostCache* cache, std::uint64_t bytes, std::function<void()> before_access)
      : cache_(*cache), bytes_(bytes), before_access_(std::move(before_access)) {}

  void omit(const Omission& omission, const RecordMap* map) {
    omission_ = omission;
    map_ = map;
  }

  [[nodiscard]] std::uint64_t size_bytes() const override { return bytes_; }
  void copy_out(std::uint64_t at, std::span<std::byte> bytes) override;
  void copy_in(std::uint64_t at, std::span<const std::byte> bytes) override;
  void flush(std::uint64_t at, std::uint64_t bytes) override;
  void invalidate(std::uint64_t at, std::uint64_t bytes) override;
  void fence() override;

 private:
  [[nodiscard]] bool is_omitted(Omission::Call call, std::uint64_t at, std::uint64_t bytes);

  fabric::HostCache& cache_;
  std::uint64_t bytes_;
  std::function<void()> before_access_;
  std::optional<Omission> omission_;
  const RecordMap* map_ = nullptr;
  Omission last_{};  ///< The last flush or invalidation that no fence has followed.
};

}  // namespace nearkv::test
