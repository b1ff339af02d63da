// Capacity codecs: one tensor of one page as fewer bytes, for cold storage, and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "nearkv/status.hpp"
#include "nkv_abi.h"

namespace nearkv {

/// Tokens of a block. A block is always whole: 64 rows of `dim` channels.
inline constexpr std::size_t kBlockTokens = NKV_PAGE_TOKENS;

/// Channels of a block: a multiple of kBlockDimMultiple, up to kMaxBlockDim.
inline constexpr std::size_t kBlockDimMultiple = 16;
inline constexpr std::size_t kMaxBlockDim = NKV_MAX_HEAD_DIM;

/// The contract's codecs (rtl/abi/nearkv.toml); their formats are in src/codec/FORMATS.md.
///
/// Lossless codecs return every bit pattern, NaN payloads included. Lossy ones take finite bf16
/// only, treat subnormals as zero, and bound the error of an element v of a group (a channel of K,
/// a token of V) whose least and greatest elements are lo and hi:
///   kInt8  0.501 * scale + 2^-8 * |result| + 2^-126,
///          where scale = max((hi - lo) / 255 * (1 + 2^-7), 2^-126)
///   kInt4  the same with 15 for 255
///   kFp8   max(2^-4 * |v|, 2^-17 * max(|lo|, |hi|)) + 2^-126
enum class Codec : std::uint8_t {
  kNone = NKV_CODEC_NONE,               ///< The rows, unchanged. Every row dtype.
  kPlanesLz4 = NKV_CODEC_PLANES_LZ4,    ///< Lossless. Every row dtype.
  kPlanesZstd = NKV_CODEC_PLANES_ZSTD,  ///< Lossless. Every row dtype.
  kInt8 = NKV_CODEC_INT8,               ///< Lossy. |elements| below 2^126.
  kInt4 = NKV_CODEC_INT4,               ///< Lossy. |elements| below 2^126.
  kFp8 = NKV_CODEC_FP8,                 ///< Lossy.
};

/// Bit c: there is a codec of number c.
inline constexpr std::uint64_t kCodecNumbers =
    1ULL << NKV_CODEC_NONE | 1ULL << NKV_CODEC_PLANES_LZ4 | 1ULL << NKV_CODEC_PLANES_ZSTD |
    1ULL << NKV_CODEC_INT8 | 1ULL << NKV_CODEC_INT4 | 1ULL << NKV_CODEC_FP8;

[[nodiscard]] constexpr bool is_codec(unsigned number) noexcept {
  return number < 64 && (kCodecNumbers >> number & 1) != 0;
}

/// Which tensor the rows are.
enum class Tensor : std::uint8_t { kKeys = NKV_TENSOR_KEYS, kValues = NKV_TENSOR_VALUES };

/// Element type of rows; fp32 is for queries only.
enum class RowDtype : std::uint8_t {
  kBf16 = NKV_DTYPE_BF16,
  kFp16 = NKV_DTYPE_FP16,
  kFp8E4m3 = NKV_DTYPE_FP8_E4M3,
  kFp8E5m2 = NKV_DTYPE_FP8_E5M2,
  kInt8 = NKV_DTYPE_INT8,
};

/// What the bytes of a block mean. An encoded block does not repeat it: the page header has it.
struct BlockShape {
  Tensor tensor = Tensor::kKeys;
  RowDtype dtype = RowDtype::kBf16;
  std::uint16_t dim = 0;  ///< Channels.
};

namespace codec {
class Workspace;
}

/// Scratch memory and the state of the compression libraries, about half a megabyte, allocated at
/// first use. Reuse saves time and changes no result. One call at a time; one object per thread.
class CodecWorkspace {
 public:
  CodecWorkspace() noexcept;
  CodecWorkspace(CodecWorkspace&&) noexcept;
  CodecWorkspace& operator=(CodecWorkspace&&) noexcept;
  ~CodecWorkspace();

  /// For the library's own use; null when there is no memory.
  [[nodiscard]] codec::Workspace* get() noexcept;

 private:
  std::unique_ptr<codec::Workspace> workspace_;
};

/// Whether this codec takes blocks of this shape.
[[nodiscard]] bool codec_supports(Codec codec, const BlockShape& shape) noexcept;

/// Size of the rows of a block, in bytes; 0 for a shape that is none.
[[nodiscard]] std::size_t block_bytes(const BlockShape& shape) noexcept;

/// Most bytes that encode() may write; 0 where the codec does not take the shape.
[[nodiscard]] std::size_t encoded_bound(Codec codec, const BlockShape& shape) noexcept;

/// Encodes `rows` (token-major, block_bytes(shape) of them) into `out`, which must have room for
/// encoded_bound(codec, shape); `encoded_bytes` receives the size. The same rows give the same
/// bytes on every machine with the same versions of liblz4 and libzstd.
///
/// kBadArgument: unsupported shape, a span of another size, or an element that a lossy codec does
/// not take; kOutOfMemory. On failure `out` is unspecified.
Status encode(Codec codec, const BlockShape& shape, std::span<const std::byte> rows,
              std::span<std::byte> out, std::size_t* encoded_bytes,
              CodecWorkspace& workspace) noexcept;

/// Decodes `encoded`, exactly the bytes that encode() wrote, into `rows`.
///
/// Any bytes are safe to pass. kCodecError: they are not a block of this shape. Damage that leaves
/// a well-formed block gives other rows and is not noticed: the page's checksum is for that.
/// kBadArgument: unsupported shape or size of `rows`; kOutOfMemory. On failure `rows` is
/// unspecified.
Status decode(Codec codec, const BlockShape& shape, std::span<const std::byte> encoded,
              std::span<std::byte> rows, CodecWorkspace& workspace) noexcept;

}  // namespace nearkv
