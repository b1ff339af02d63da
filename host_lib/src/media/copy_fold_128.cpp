#include <hwy/highway.h>

#include "media/copy_fold-inl.h"

namespace nearkv {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

/// 16 bytes by Highway, for the processor that the library is compiled for.
struct Vector128 {
  using Tag = hn::FixedTag<std::uint64_t, 2>;
  using Register = hn::Vec<Tag>;
  static constexpr std::size_t kBytes = 16;
  static constexpr std::size_t kRegisters = 8;

  static Register load(const std::byte* from) {
    return hn::BitCast(Tag(), hn::LoadU(hn::FixedTag<std::uint8_t, 16>(),
                                        reinterpret_cast<const std::uint8_t*>(from)));
  }
  template <StoreKind kStores>
  static void store(Register data, std::byte* to) {
    const hn::FixedTag<std::uint8_t, 16> d;
    if constexpr (kStores == StoreKind::kStream) {
      hn::Stream(hn::BitCast(d, data), d, reinterpret_cast<std::uint8_t*>(to));
    } else {
      hn::StoreU(hn::BitCast(d, data), d, reinterpret_cast<std::uint8_t*>(to));
    }
  }
  static Register constants(FoldConstants by) {
    alignas(16) const std::uint64_t halves[2] = {by.first_half, by.second_half};
    return hn::Load(Tag(), halves);
  }
  static Register add_low(Register data, std::uint32_t state) {
    alignas(16) const std::uint64_t halves[2] = {state, 0};
    return hn::Xor(data, hn::Load(Tag(), halves));
  }
  static Register fold(Register sum, Register by, Register data) {
    return hn::Xor(hn::Xor(hn::CLMulLower(sum, by), hn::CLMulUpper(sum, by)), data);
  }

  static Register narrow_constants(FoldConstants by) { return constants(by); }
  static Register narrow_fold(Register sum, Register by, Register data) {
    return fold(sum, by, data);
  }
  static Register part(Register data, std::size_t /*only one*/) { return data; }
  static void narrow_store(Register data, unsigned char* to) {
    const hn::FixedTag<std::uint8_t, 16> d;
    hn::Store(hn::BitCast(d, data), d, to);
  }
};

}  // namespace

std::uint32_t copy_fold_128(std::byte* to, const std::byte* from, std::size_t bytes,
                            std::uint32_t state, StoreKind stores) {
  return stores == StoreKind::kStream
             ? copy_fold_blocks<Vector128, StoreKind::kStream>(to, from, bytes, state)
             : copy_fold_blocks<Vector128, StoreKind::kOrdinary>(to, from, bytes, state);
}

CopyFold copy_fold() {
  static const CopyFold chosen = copy_fold_256() != nullptr ? copy_fold_256() : &copy_fold_128;
  return chosen;
}

}  // namespace nearkv
