#include "media/sealed_streams.hpp"

#include <algorithm>
#include <cstring>

namespace nearkv {

std::uint32_t SealingSource::give(std::span<std::byte> to_pool, std::uint32_t crc) {
  if (!begun_) {
    begun_ = true;
    SealNonce nonce{};
    status_ = Sealer::make_nonce(&nonce);
    std::memcpy(seal_->nonce, nonce.data(), nonce.size());
    if (status_ == Status::kOk) {
      status_ = sealer_->begin(Sealer::Direction::kSeal, nonce, identity_);
    }
  }
  const std::span<std::byte> staging = sealer_->staging();
  while (!to_pool.empty() && status_ == Status::kOk) {
    const std::size_t bytes = std::min(to_pool.size(), staging.size());
    for (std::size_t at = 0; at < bytes && status_ == Status::kOk;) {
      const std::span<const std::byte> piece = cursor_->next(bytes - at);
      status_ = sealer_->update(piece, staging.data() + at);
      at += piece.size();
    }
    if (status_ != Status::kOk) break;
    crc = copy_in(to_pool.first(bytes), staging.first(bytes), crc);
    to_pool = to_pool.subspan(bytes);
    left_bytes_ -= bytes;
  }
  if (status_ == Status::kOk && left_bytes_ == 0) {
    SealTag tag{};
    status_ = sealer_->finish(&tag);
    std::memcpy(seal_->tag, tag.data(), tag.size());
  }
  return crc;
}

OpeningSink::OpeningSink(Sealer* sealer, TargetCursor* cursor, std::span<const std::byte> identity,
                         const nkv_object_seal& seal)
    : sealer_(sealer), cursor_(cursor), written_(*cursor) {
  SealNonce nonce;
  std::memcpy(nonce.data(), seal.nonce, nonce.size());
  std::memcpy(tag_.data(), seal.tag, tag_.size());
  status_ = sealer_->begin(Sealer::Direction::kOpen, nonce, identity);
}

std::uint32_t OpeningSink::take(std::span<const std::byte> from_pool, std::uint32_t crc) {
  const std::span<std::byte> staging = sealer_->staging();
  while (!from_pool.empty() && status_ == Status::kOk) {
    const std::size_t bytes = std::min(from_pool.size(), staging.size());
    crc = copy_out(staging, from_pool.first(bytes), crc);
    for (std::size_t at = 0; at < bytes && status_ == Status::kOk;) {
      const std::span<std::byte> piece = cursor_->next(bytes - at);
      written_bytes_ += piece.size();
      status_ = sealer_->update(staging.subspan(at, piece.size()), piece.data());
      at += piece.size();
    }
    from_pool = from_pool.subspan(bytes);
  }
  return crc;
}

Status OpeningSink::finish() {
  if (status_ == Status::kOk && !sealer_->matches(tag_)) status_ = Status::kDenied;
  if (status_ != Status::kOk) discard();
  return status_;
}

void OpeningSink::discard() {
  while (written_bytes_ != 0) {
    const std::span<std::byte> piece = written_.next(written_bytes_);
    std::ranges::fill(piece, std::byte{0});
    written_bytes_ -= piece.size();
  }
}

}  // namespace nearkv
