#include "codec/planes.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "codec/bit_planes.hpp"
#include "codec/element_bytes.hpp"
#include "codec/element_format.hpp"

namespace nearkv::codec {
namespace {

// Exponent bits that are stored as pairs or single planes; higher ones are set by rare elements
// only and share a section.
constexpr unsigned kLowExponentBits = 4;

// A plane is one 64-bit word per channel.
constexpr std::size_t kPlaneWordBytes = kBlockTokens / 8;

// A section's size in the encoded block; 0 means zeros, the plain size means stored plain.
using DirectoryEntry = std::uint16_t;

constexpr std::size_t kMaxSections = 1 + 1 + kWordBits;

// Sections in the order in which they are stored, by plain size.
class SectionList {
 public:
  SectionList(const ElementFormat& format, std::size_t dim, bool pairs_tokens) {
    const std::size_t plane_bytes = kPlaneWordBytes * dim;
    add(dim);
    if (format.exponent_bits > kLowExponentBits) {
      add((format.exponent_bits - kLowExponentBits) * plane_bytes);
    }
    if (pairs_tokens) {
      add(kLowExponentBits * plane_bytes);
    } else {
      for (unsigned bit = 0; bit < kLowExponentBits; ++bit) add(plane_bytes);
    }
    first_random_ = count_;
    if (format.sign_bits != 0) add(plane_bytes);
    for (unsigned bit = 0; bit < format.mantissa_bits; ++bit) add(plane_bytes);
  }

  [[nodiscard]] std::span<const std::size_t> plain_bytes() const {
    return std::span(plain_bytes_).first(count_);
  }
  [[nodiscard]] std::size_t directory_bytes() const { return count_ * sizeof(DirectoryEntry); }

  /// Sign and mantissa: from here on each plane is as random as the one before it, or more.
  [[nodiscard]] bool is_random(std::size_t section) const { return section >= first_random_; }

 private:
  void add(std::size_t plain_bytes) { plain_bytes_[count_++] = plain_bytes; }

  std::array<std::size_t, kMaxSections> plain_bytes_{};
  std::size_t count_ = 0;
  std::size_t first_random_ = 0;
};

// All sections, plain and one after the other.
struct PlainBlock {
  std::span<std::byte> bytes;
  std::span<std::byte> references;  // One per channel.
  std::span<std::byte> pairs;       // The low exponent bits, where they are not planes.
  BitPlanes<std::uint64_t> planes{};
};

PlainBlock lay_out(const ElementFormat& format, std::size_t dim, bool pairs_tokens,
                   std::span<std::uint64_t> memory) {
  PlainBlock block;
  block.bytes = std::as_writable_bytes(memory).first(dim + format.bits() * kPlaneWordBytes * dim);
  block.references = block.bytes.first(dim);
  std::uint64_t* next = memory.data() + dim / sizeof(std::uint64_t);
  const auto add_planes = [&](unsigned begin, unsigned count) {
    for (unsigned bit = begin + count; bit-- > begin; next += dim) block.planes[bit] = next;
  };
  const unsigned high_bits = format.exponent_bits - kLowExponentBits;
  add_planes(format.mantissa_bits + kLowExponentBits, high_bits);
  if (pairs_tokens) {
    const std::span low_exponents(next, kLowExponentBits * dim);
    block.pairs = std::as_writable_bytes(low_exponents);
    next += low_exponents.size();
  } else {
    add_planes(format.mantissa_bits, kLowExponentBits);
  }
  add_planes(format.mantissa_bits + format.exponent_bits, format.sign_bits);
  add_planes(0, format.mantissa_bits);
  return block;
}

std::uint16_t exponent_mask(const ElementFormat& format) {
  return static_cast<std::uint16_t>(format.top_exponent() << format.mantissa_bits);
}

void find_references(const ElementFormat& format, std::span<const std::uint16_t> words,
                     std::span<std::byte> references) {
  const std::size_t dim = references.size();
  const std::uint16_t mask = exponent_mask(format);
  const std::uint16_t special = format.special_top_exponent ? mask : std::uint16_t{0xFFFF};
  std::array<std::uint16_t, kMaxBlockDim> greatest{};
  for (std::size_t token = 0; token < kBlockTokens; ++token) {
    const std::uint16_t* const row = words.data() + token * dim;
    for (std::size_t c = 0; c < dim; ++c) {
      const auto exponent = static_cast<std::uint16_t>(row[c] & mask);
      greatest[c] = std::max(greatest[c], exponent == special ? std::uint16_t{0} : exponent);
    }
  }
  for (std::size_t c = 0; c < dim; ++c) {
    references[c] = static_cast<std::byte>(greatest[c] >> format.mantissa_bits);
  }
}

// Replaces every exponent by reference - exponent modulo the field's size. Its own inverse.
void reflect_exponents(const ElementFormat& format, std::span<const std::byte> references,
                       std::span<const std::uint16_t> from, std::span<std::uint16_t> to) {
  const std::size_t dim = references.size();
  const std::uint16_t mask = exponent_mask(format);
  std::array<std::uint16_t, kMaxBlockDim> reference;
  for (std::size_t c = 0; c < dim; ++c) {
    reference[c] = static_cast<std::uint16_t>(std::to_integer<unsigned>(references[c])
                                              << format.mantissa_bits);
  }
  for (std::size_t token = 0; token < kBlockTokens; ++token) {
    const std::uint16_t* const source = from.data() + token * dim;
    std::uint16_t* const destination = to.data() + token * dim;
    for (std::size_t c = 0; c < dim; ++c) {
      destination[c] = static_cast<std::uint16_t>((source[c] & ~mask) |
                                                  ((reference[c] - (source[c] & mask)) & mask));
    }
  }
}

void pair_tokens(unsigned shift, std::span<const std::uint16_t> words, std::span<std::byte> pairs) {
  const std::size_t dim = words.size() / kBlockTokens;
  for (std::size_t pair = 0; pair < kBlockTokens / 2; ++pair) {
    const std::uint16_t* const even = words.data() + 2 * pair * dim;
    const std::uint16_t* const odd = even + dim;
    std::byte* const bytes = pairs.data() + pair * dim;
    for (std::size_t c = 0; c < dim; ++c) {
      bytes[c] = static_cast<std::byte>(((even[c] >> shift) & 0xF) |
                                        (((odd[c] >> shift) & 0xF) << kLowExponentBits));
    }
  }
}

void unpair_tokens(unsigned shift, std::span<const std::byte> pairs,
                   std::span<std::uint16_t> words) {
  const std::size_t dim = words.size() / kBlockTokens;
  for (std::size_t pair = 0; pair < kBlockTokens / 2; ++pair) {
    std::uint16_t* const even = words.data() + 2 * pair * dim;
    std::uint16_t* const odd = even + dim;
    const std::byte* const bytes = pairs.data() + pair * dim;
    for (std::size_t c = 0; c < dim; ++c) {
      const auto both = std::to_integer<unsigned>(bytes[c]);
      even[c] = static_cast<std::uint16_t>(even[c] | ((both & 0xF) << shift));
      odd[c] = static_cast<std::uint16_t>(odd[c] | ((both >> kLowExponentBits) << shift));
    }
  }
}

bool all_zero(std::span<const std::byte> bytes) {
  std::byte any{};
  for (const std::byte b : bytes) any |= b;
  return any == std::byte{};
}

}  // namespace

bool planes_support(const BlockShape&) { return true; }

std::size_t planes_bound(const BlockShape& shape) {
  return kMaxSections * sizeof(DirectoryEntry) + shape.dim +
         element_format(shape.dtype).bits() * kPlaneWordBytes * shape.dim;
}

std::size_t encode_planes(const PlaneCompressor& compressor, const BlockShape& shape,
                          std::span<const std::uint16_t> words, std::span<std::byte> out,
                          Workspace& workspace) {
  const ElementFormat format = element_format(shape.dtype);
  const PlainBlock block = lay_out(format, shape.dim, compressor.pairs_tokens, workspace.plain());
  const auto transformed = workspace.transformed(words.size());
  find_references(format, words, block.references);
  reflect_exponents(format, block.references, words, transformed);
  to_bit_planes(transformed, block.planes);
  if (compressor.pairs_tokens) pair_tokens(format.mantissa_bits, transformed, block.pairs);

  const SectionList sections(format, shape.dim, compressor.pairs_tokens);
  std::byte* directory = out.data();
  std::span<const std::byte> plain = block.bytes;
  std::size_t used = sections.directory_bytes();
  // After one random plane that does not shrink, the rest are not tried.
  bool worth_trying = true;
  for (std::size_t i = 0; i < sections.plain_bytes().size(); ++i) {
    const auto section = plain.first(sections.plain_bytes()[i]);
    plain = plain.subspan(section.size());
    std::size_t stored = 0;
    if (!all_zero(section)) {
      if (worth_trying) {
        stored = compressor.compress(section, out.subspan(used, section.size() - 1), workspace);
      }
      if (stored == 0) {
        stored = section.size();
        std::memcpy(out.data() + used, section.data(), stored);
        worth_trying = !sections.is_random(i);
      }
    }
    store(directory, static_cast<DirectoryEntry>(stored));
    directory += sizeof(DirectoryEntry);
    used += stored;
  }
  return used;
}

Status decode_planes(const PlaneCompressor& compressor, const BlockShape& shape,
                     std::span<const std::byte> encoded, std::span<std::uint16_t> words,
                     Workspace& workspace) {
  const ElementFormat format = element_format(shape.dtype);
  const PlainBlock block = lay_out(format, shape.dim, compressor.pairs_tokens, workspace.plain());
  const SectionList sections(format, shape.dim, compressor.pairs_tokens);
  if (encoded.size() < sections.directory_bytes()) return Status::kCodecError;
  const std::byte* directory = encoded.data();
  std::span<const std::byte> rest = encoded.subspan(sections.directory_bytes());
  std::span<std::byte> plain = block.bytes;
  for (const std::size_t plain_bytes : sections.plain_bytes()) {
    const auto section = plain.first(plain_bytes);
    plain = plain.subspan(plain_bytes);
    const std::size_t stored = load<DirectoryEntry>(directory);
    directory += sizeof(DirectoryEntry);
    if (stored > rest.size() || stored > plain_bytes) return Status::kCodecError;
    if (stored == 0) {
      std::ranges::fill(section, std::byte{});
    } else if (stored == plain_bytes) {
      std::memcpy(section.data(), rest.data(), stored);
    } else if (!compressor.expand(rest.first(stored), section, workspace)) {
      return Status::kCodecError;
    }
    rest = rest.subspan(stored);
  }
  if (!rest.empty()) return Status::kCodecError;

  BitPlanes<const std::uint64_t> planes;
  std::ranges::copy(block.planes, planes.begin());
  const auto transformed = workspace.transformed(words.size());
  from_bit_planes(planes, transformed);
  if (compressor.pairs_tokens) unpair_tokens(format.mantissa_bits, block.pairs, transformed);
  reflect_exponents(format, block.references, transformed, words);
  return Status::kOk;
}

}  // namespace nearkv::codec
