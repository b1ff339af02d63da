// The registers' way from the driver: a page of shared memory in which it leaves one request at a
// time.
#ifndef NEARKV_EMULATOR_BRIDGE_HPP_
#define NEARKV_EMULATOR_BRIDGE_HPP_

#include <cstddef>
#include <cstdint>
#include <span>

#include "function/function.hpp"
#include "nkv_card.h"

namespace nearkv::emulator {

/// The device's side of a `card_bridge`. What the other side writes is never trusted: it may change
/// at any time. One thread at a time.
class Bridge {
 public:
  /// `shared` has NKV_CARD_SHARED_BYTES; it and `function` must outlive the bridge.
  Bridge(std::span<std::byte> shared, Function* function, std::uint64_t serial);

  /// Answers a request, if there is one; false if not.
  bool serve();

  /// Shows that somebody is there.
  void beat();

 private:
  [[nodiscard]] nkv_card_bridge* page() const;

  std::span<std::byte> shared_;
  Function* function_;
  std::uint32_t answered_ = 0;
};

}  // namespace nearkv::emulator

#endif  // NEARKV_EMULATOR_BRIDGE_HPP_
