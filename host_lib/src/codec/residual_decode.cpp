#include <algorithm>
#include <bit>
#include <cstring>

#include "codec/element_bytes.hpp"
#include "codec/ranges.hpp"
#include "codec/residual.hpp"

namespace nearkv::codec {
namespace {

constexpr unsigned kMantissaBits = 7;

// What key_digest() can return.
constexpr int kMinStepExponent = -138;
constexpr int kMaxStepExponent = 118;

// Reads bits, least significant first, from memory that goes on for eight bytes after the last of
// them.
class BitReader {
 public:
  explicit BitReader(const std::byte* begin) : begin_(begin) {}

  [[nodiscard]] std::size_t position_bits() const { return position_bits_; }

  /// The next 32 bits or more.
  [[nodiscard]] std::uint64_t peek() const {
    return load<std::uint64_t>(begin_ + position_bits_ / 8) >> (position_bits_ % 8);
  }
  void skip(unsigned count) { position_bits_ += count; }

 private:
  const std::byte* begin_;
  std::size_t position_bits_ = 0;
};

constexpr std::uint32_t low_bits(unsigned count) { return (1U << count) - 1; }

class StreamDecoder {
 public:
  explicit StreamDecoder(std::span<const ChannelStep> steps) : channels_(steps) {}

  /// Whether `stream`, at most a row long, holds exactly the keys of these codes.
  bool decode(std::span<const std::byte> stream, std::span<const std::uint8_t> codes,
              std::span<std::uint16_t> row) {
    std::memcpy(buffer_.data(), stream.data(), stream.size());
    cells_.locate(channels_, codes);
    BitReader reader(buffer_.data());
    for (std::size_t c = 0; c < row.size(); c += kCellsAtATime) {
      std::uint64_t stored = reader.peek();
      for (std::size_t i = c; i < c + kCellsAtATime; ++i) {
        const unsigned known = cells_.known_bits[i];
        const unsigned count = kOffsetBits - known;
        const std::uint32_t upper = static_cast<std::uint32_t>(stored) & low_bits(count);
        stored >>= count;
        reader.skip(count);
        // The key in units, a multiple of 2^known, is this offset after the start of the cell.
        const std::uint32_t lower =
            -(static_cast<std::uint32_t>(cells_.start[i]) << kUnitBits) & low_bits(known);
        offsets_[i] = static_cast<std::uint8_t>((upper << known) | lower);
      }
    }
    restore_keys(row);
    cells_.for_each_at_zero(row.size(), [&](std::size_t c) {
      const unsigned count = extension_bits(offsets_[c]);
      row[c] =
          restore_near_zero(c, static_cast<std::uint32_t>(reader.peek()) & low_bits(count), count);
      reader.skip(count);
    });
    const std::size_t stream_bits = 8 * stream.size();
    constexpr std::size_t kPaddingBits = 8 * ResidualLayout::kStreamUnitBytes;
    return reader.position_bits() <= stream_bits &&
           stream_bits - reader.position_bits() < kPaddingBits;
  }

 private:
  // Keys of all cells from their offsets; those of cells touching zero come out wrong.
  void restore_keys(std::span<std::uint16_t> row) const {
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::int32_t units = (std::int32_t{cells_.start[c]} << kUnitBits) + offsets_[c];
      const std::uint32_t sign = units < 0 ? kBf16Sign : 0U;
      const auto magnitude =
          std::bit_cast<std::uint32_t>(static_cast<float>(units < 0 ? -units : units)) +
          channels_.unit_exponent[c];
      row[c] = static_cast<std::uint16_t>(sign | ((magnitude >> 16) & kBf16Magnitude));
    }
  }

  [[nodiscard]] std::uint16_t restore_near_zero(std::size_t c, std::uint32_t extension,
                                                unsigned extension_count) const {
    const std::uint32_t offset = offsets_[c];
    if (offset == kZeroOffset) return 0;
    if (offset == kRawOffset) return static_cast<std::uint16_t>(extension);
    const std::uint32_t significand = (offset << extension_count) | extension;
    constexpr std::uint32_t kBias = 127 + kMantissaBits;
    const std::uint32_t exponent = kBias + (channels_.unit_exponent[c] >> 23) - extension_count;
    const std::uint32_t mantissa = significand & low_bits(kMantissaBits);
    const std::uint32_t sign = cells_.start[c] < 0 ? kBf16Sign : 0U;
    return static_cast<std::uint16_t>(sign | ((exponent << kMantissaBits) & kBf16Exponent) |
                                      mantissa);
  }

  ResidualChannels channels_;
  TokenCells cells_;
  std::array<std::uint8_t, kMaxBlockDim> offsets_;
  // Longer than any stream, so that a damaged one can be read to its end before it is refused.
  std::array<std::byte, kMaxPackedBytes + sizeof(std::uint64_t)> buffer_{};
};

}  // namespace

Status decode_residual(const BlockShape& shape, std::span<const std::byte> encoded,
                       std::span<std::uint16_t> words, Workspace&) {
  const std::size_t dim = shape.dim;
  const ResidualLayout layout(dim);
  if (encoded.size() < layout.streams) return Status::kCodecError;
  const std::byte* const block = encoded.data();

  // The reserved bytes are the upper three quarters of the first 64 bits.
  const auto k_step_exponent = load<std::int16_t>(block + ResidualLayout::kStepExponent);
  const bool reserved_is_zero = load<std::uint64_t>(block) >> 16 == 0;
  if (!reserved_is_zero || k_step_exponent < kMinStepExponent ||
      k_step_exponent > kMaxStepExponent) {
    return Status::kCodecError;
  }
  const auto raw_tokens = load<std::uint64_t>(block + ResidualLayout::kRawTokens);

  std::array<ChannelStep, kMaxBlockDim> step_storage;
  const std::span<ChannelStep> steps = std::span(step_storage).first(dim);
  for (std::size_t c = 0; c < dim; ++c) {
    const auto entry = load<std::uint16_t>(block + layout.digest + sizeof(std::uint16_t) * c);
    steps[c] = unpack_step(entry, k_step_exponent);
  }

  StreamDecoder decoder(steps);
  std::array<std::uint8_t, kMaxBlockDim> code_storage;
  const std::span<std::uint8_t> codes = std::span(code_storage).first(dim);
  std::size_t begin = layout.streams;
  for (std::size_t token = 0; token < kBlockTokens; ++token) {
    const auto units =
        load<std::uint16_t>(block + layout.stream_ends + sizeof(std::uint16_t) * token);
    const std::size_t end = layout.streams + units * ResidualLayout::kStreamUnitBytes;
    if (end < begin || end > encoded.size() || end - begin > layout.raw_row_bytes) {
      return Status::kCodecError;
    }
    const auto stream = encoded.subspan(begin, end - begin);
    const auto row = words.subspan(token * dim, dim);
    begin = end;
    if ((raw_tokens >> token & 1) != 0) {
      if (stream.size() != layout.raw_row_bytes) return Status::kCodecError;
      widen_elements(stream, row);
      continue;
    }
    unpack_code_planes(block + layout.planes + token * (dim / 8), layout.plane_bytes, codes);
    unpack_nibbles(block + layout.nibbles + token * layout.nibble_row_bytes, codes);
    if (!decoder.decode(stream, codes, row)) return Status::kCodecError;
  }
  return begin == encoded.size() ? Status::kOk : Status::kCodecError;
}

}  // namespace nearkv::codec
