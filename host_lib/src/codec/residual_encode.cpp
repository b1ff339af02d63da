#include <algorithm>
#include <bit>
#include <cstring>

#include "codec/element_bytes.hpp"
#include "codec/ranges.hpp"
#include "codec/residual.hpp"

namespace nearkv::codec {
namespace {

constexpr std::uint32_t kMantissaBits = 7;
constexpr std::uint32_t kHiddenBit = 1U << kMantissaBits;

// Appends bits, least significant first, to memory with eight bytes of slack.
class BitWriter {
 public:
  explicit BitWriter(std::byte* begin) : begin_(begin), next_(begin) {}

  /// `value` has no bits above `count`, which is at most 32.
  void put(std::uint32_t value, unsigned count) {
    pending_ |= std::uint64_t{value} << pending_bits_;
    pending_bits_ += count;
    store(next_, pending_);
    next_ += pending_bits_ / 8;
    pending_ >>= pending_bits_ / 8 * 8;
    pending_bits_ %= 8;
  }

  /// Size in bytes, padded with zeros to whole units.
  [[nodiscard]] std::size_t finish(std::size_t unit_bytes) const {
    store(next_, pending_);
    const std::size_t bits = 8 * static_cast<std::size_t>(next_ - begin_) + pending_bits_;
    const std::size_t unit_bits = 8 * unit_bytes;
    return (bits + unit_bits - 1) / unit_bits * unit_bytes;
  }

 private:
  std::byte* begin_;
  std::byte* next_;
  std::uint64_t pending_ = 0;
  unsigned pending_bits_ = 0;
};

// Encodes the streams of tokens that have finite keys only.
class StreamEncoder {
 public:
  explicit StreamEncoder(std::span<const ChannelStep> steps) : channels_(steps) {}

  /// The token's stream; valid until the next call.
  std::span<const std::byte> encode(std::span<const std::uint16_t> row,
                                    std::span<const std::uint8_t> codes) {
    cells_.locate(channels_, codes);
    find_offsets(row);
    BitWriter writer(buffer_.data());
    for (std::size_t c = 0; c < row.size(); c += kCellsAtATime) {
      std::uint32_t bits = 0;
      unsigned count = 0;
      for (std::size_t i = c; i < c + kCellsAtATime; ++i) {
        const unsigned known = cells_.known_bits[i];
        bits |= (std::uint32_t{offsets_[i]} >> known) << count;
        count += kOffsetBits - known;
      }
      writer.put(bits, count);
    }
    cells_.for_each_at_zero(row.size(), [&](std::size_t c) {
      const unsigned count = extension_bits(offsets_[c]);
      const std::uint32_t bits = offsets_[c] == kRawOffset ? row[c] : row[c] | kHiddenBit;
      writer.put(bits & ((1U << count) - 1), count);
    });
    const std::size_t bytes = writer.finish(ResidualLayout::kStreamUnitBytes);
    return std::span(buffer_).first(bytes);
  }

 private:
  // Offsets from the cell's lower edge, in units; from zero in the cells that touch it.
  void find_offsets(std::span<const std::uint16_t> row) {
    constexpr std::int32_t kNegligible = 100 << 23;  // 2^-27 units.
    for (std::size_t c = 0; c < row.size(); ++c) {
      const bool zero = (row[c] & kBf16Exponent) == 0;
      const std::uint32_t magnitude = std::uint32_t{row[c] & std::uint32_t{kBf16Magnitude}} << 16;
      const auto scaled = static_cast<std::int32_t>(magnitude - channels_.unit_exponent[c]);
      const auto units = static_cast<std::int32_t>(
          std::bit_cast<float>(zero ? kNegligible : std::max(scaled, kNegligible)));
      const std::int32_t value = (row[c] & kBf16Sign) != 0 ? -units : units;
      const std::int32_t from_zero = row[c] == 0 ? std::int32_t{kZeroOffset} : units;
      const std::int32_t from_edge = value - (std::int32_t{cells_.start[c]} << kUnitBits);
      offsets_[c] = static_cast<std::uint8_t>(cells_.touches_zero[c] != 0 ? from_zero : from_edge);
    }
  }

  ResidualChannels channels_;
  TokenCells cells_;
  std::array<std::uint8_t, kMaxBlockDim> offsets_;
  std::array<std::byte, kMaxPackedBytes + sizeof(std::uint64_t)> buffer_;
};

}  // namespace

Status encode_residual(const BlockShape& shape, std::span<const std::uint16_t> words,
                       std::span<std::byte> out, std::size_t* encoded_bytes, Workspace& workspace) {
  const std::size_t dim = shape.dim;
  const ResidualLayout layout(dim);

  std::array<ChannelStep, kMaxBlockDim> step_storage;
  const std::span<ChannelStep> steps = std::span(step_storage).first(dim);
  const std::int16_t k_step_exponent = key_digest(words, steps);
  for (std::size_t c = 0; c < dim; ++c) {
    store(out.data() + layout.digest + sizeof(std::uint16_t) * c,
          pack_step(steps[c], k_step_exponent));
  }
  const std::span<std::uint8_t> codes = workspace.codes(words.size());
  key_codes(words, steps, codes);

  StreamEncoder encoder(steps);
  std::uint64_t raw_tokens = 0;
  std::size_t used = layout.streams;
  for (std::size_t token = 0; token < kBlockTokens; ++token) {
    const auto row = words.subspan(token * dim, dim);
    const auto row_codes = codes.subspan(token * dim, dim);
    pack_code_planes(row_codes, out.data() + layout.planes + token * (dim / 8), layout.plane_bytes);
    pack_nibbles(row_codes, out.data() + layout.nibbles + token * layout.nibble_row_bytes);

    std::span<const std::byte> stream = std::as_bytes(row);
    bool raw = !all_finite(row);
    if (!raw) {
      const auto packed = encoder.encode(row, row_codes);
      raw = packed.size() > layout.raw_row_bytes;
      if (!raw) stream = packed;
    }
    raw_tokens |= std::uint64_t{raw} << token;
    std::memcpy(out.data() + used, stream.data(), stream.size());
    used += stream.size();
    store(out.data() + layout.stream_ends + sizeof(std::uint16_t) * token,
          static_cast<std::uint16_t>((used - layout.streams) / ResidualLayout::kStreamUnitBytes));
  }

  std::memset(out.data(), 0, ResidualLayout::kHeaderBytes);
  store(out.data() + ResidualLayout::kStepExponent, k_step_exponent);
  store(out.data() + ResidualLayout::kRawTokens, raw_tokens);
  *encoded_bytes = used;
  return Status::kOk;
}

}  // namespace nearkv::codec
