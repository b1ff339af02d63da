// Bytes that are sealed on their way into a pool, and opened on their way out.
#pragma once

#include "media/byte_streams.hpp"
#include "media/sealer.hpp"

namespace nearkv {

/// One part of an object: ciphertext of a cursor's next bytes. Borrows all that it is made of.
class SealingSource final : public ByteSource {
 public:
  /// Exactly `bytes` will be asked for, and the cursor holds them. The nonce and, once the last
  /// byte was given, the tag are in `seal`. The first byte takes the sealer.
  SealingSource(Sealer* sealer, SourceCursor* cursor, std::span<const std::byte> identity,
                std::uint64_t bytes, nkv_object_seal* seal)
      : sealer_(sealer), cursor_(cursor), identity_(identity), left_bytes_(bytes), seal_(seal) {}

  std::uint32_t give(std::span<std::byte> to_pool, std::uint32_t crc) override;

  /// What went wrong. kInternal: what was given is not to be used.
  [[nodiscard]] Status status() const { return status_; }

 private:
  Sealer* sealer_;
  SourceCursor* cursor_;
  std::span<const std::byte> identity_;
  std::uint64_t left_bytes_;
  nkv_object_seal* seal_;
  bool begun_ = false;
  Status status_ = Status::kOk;
};

/// The same on the way out: plaintext to a cursor's next bytes.
class OpeningSink final : public ByteSink {
 public:
  OpeningSink(Sealer* sealer, TargetCursor* cursor, std::span<const std::byte> identity,
              const nkv_object_seal& seal);

  std::uint32_t take(std::span<const std::byte> from_pool, std::uint32_t crc) override;

  /// Whether all that was taken is what was sealed. If not, what the cursor was given is zero, for
  /// nobody to read what nobody vouches for: kDenied. kInternal.
  Status finish();

  /// The same for one that took damaged bytes, or not all.
  void discard();

 private:
  Sealer* sealer_;
  TargetCursor* cursor_;
  TargetCursor written_;
  std::uint64_t written_bytes_ = 0;
  SealTag tag_;
  Status status_;
};

}  // namespace nearkv
