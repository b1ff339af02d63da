// A page that a block of threads writes: its place, the rows it is made of, and what its threads
// share.
#pragma once

#include "checksum.hpp"
#include "key_steps.hpp"
#include "nearkv_cuda.h"

namespace nearkv::cuda {

enum PackedTensor : unsigned { kKeys, kValues };

/// Rows of one tensor of one page.
struct PackedRows {
  const std::byte* first;
  std::uint64_t pitch;

  [[nodiscard]] NKV_KERNEL const std::byte* at(std::uint32_t token) const {
    return first + token * pitch;
  }
};

/// What the threads share.
struct PackWorkspace {
  static constexpr unsigned kHot = NKV_PAGE_ARRAY_COUNT;  ///< Of the header's halves.
  static constexpr unsigned kCold = kHot + 1;

  ChecksumTables tables;
  nkv_page_header header;
  std::uint64_t numerator;             ///< Of v_residual.
  std::uint32_t checksums[kCold + 1];  ///< By array, without their final inversion.
  std::uint32_t coarsest;              ///< The greatest number of a key channel's step.
  std::uint32_t exponent[2];           ///< Largest of the tensor's finite elements.
  std::uint32_t nonfinite[2];          ///< Tokens, 32 in each.
  std::uint32_t exceptions[2];         ///< How many the tensor has, which may be more than fit.
  nkv_row_exception found[2][NKV_EXCEPTIONS];
  float low[NKV_MAX_HEAD_DIM];  ///< Of keys; this and what follows by channel.
  std::uint32_t number[NKV_MAX_HEAD_DIM];
  CellStep step[NKV_MAX_HEAD_DIM];
  std::int32_t first_cell[NKV_MAX_HEAD_DIM];  ///< That of code 0.
  std::uint8_t least[2][NKV_MAX_HEAD_DIM];    ///< Exponent that DELTA4's nibbles count from.

  /// k_step_exponent, once all channels have their steps.
  [[nodiscard]] NKV_KERNEL std::int32_t step_exponent() const {
    constexpr std::int32_t kOfZeros = -127;
    if (coarsest == kNoStep) return kOfZeros;
    return static_cast<std::int32_t>(coarsest >> 3) - kStepExponentBias;
  }
};

template <typename Block>
class PageWriter {
 public:
  NKV_KERNEL PageWriter(Block& block_of_page, const nearkv_cuda_pack_args& args,
                        const nkv_page_layout& layout_of_page, std::byte* place)
      : block(block_of_page),
        own(*reinterpret_cast<PackWorkspace*>(block.shared())),
        shape(args.shape),
        layout(layout_of_page),
        start(place),
        keys(rows_of(args, args.keys)),
        values(shape.v_form == NKV_ROW_FORM_NONE ? keys : rows_of(args, args.values)),
        key_scales(rows_of(args, args.key_scales)) {}

  /// Takes an older page's first word away, and clears what the threads share.
  NKV_KERNEL void begin() {
    load_tables(block, &own.tables);
    if (block.thread() == 0) {
      block.store_release(reinterpret_cast<std::uint32_t*>(start), 0);
      own.numerator = 0;
      for (std::uint32_t& checksum : own.checksums) checksum = 0;
      own.coarsest = kNoStep;
      for (unsigned i = 0; i < 2; ++i) {
        own.exponent[i] = own.nonfinite[i] = own.exceptions[i] = 0;
      }
    }
    block.sync();
  }

  /// Writes `kArrays` arrays of one size, the first of which is `array`, with their checksums:
  /// make(i, words) gives the 32-bit word i of each.
  template <unsigned kArrays, typename Make>
  NKV_KERNEL void write(unsigned array, const Make& make) {
    ChecksumPart parts[kArrays];
    const std::uint32_t words = layout.bytes[array] / kWordBytes;
    for (std::uint32_t i = block.thread(); i < words; i += kThreads) {
      std::uint32_t word[kArrays];
      make(i, word);
      NKV_UNROLL
      for (unsigned a = 0; a < kArrays; ++a) {
        reinterpret_cast<std::uint32_t*>(start + layout.offset[array + a])[i] = word[a];
        parts[a].add(own.tables, i, word[a]);
      }
    }
    NKV_UNROLL
    for (unsigned a = 0; a < kArrays; ++a) {
      block.flip(&own.checksums[array + a], parts[a].of(own.tables, words));
    }
  }

  /// Zeros between arrays, and behind the last.
  NKV_KERNEL void write_padding() {
    for (unsigned array = 0; array < NKV_PAGE_ARRAY_COUNT; ++array) {
      const bool is_last = array + 1 == NKV_PAGE_ARRAY_COUNT;
      const std::uint32_t end = is_last ? layout.total_bytes : layout.offset[array + 1];
      const std::uint32_t begin = layout.offset[array] + layout.bytes[array];
      for (std::uint32_t at = begin + kWordBytes * block.thread(); at < end;
           at += kWordBytes * kThreads) {
        *reinterpret_cast<std::uint32_t*>(start + at) = 0;
      }
    }
  }

  [[nodiscard]] NKV_KERNEL std::uint32_t dim(PackedTensor tensor) const {
    return tensor == kKeys ? shape.head_dim : shape.value_dim;
  }
  [[nodiscard]] NKV_KERNEL std::uint8_t form(PackedTensor tensor) const {
    return tensor == kKeys ? shape.k_form : shape.v_form;
  }
  /// Rows of keys stand for values that are not stored.
  [[nodiscard]] NKV_KERNEL const PackedRows& rows(PackedTensor tensor) const {
    return tensor == kKeys ? keys : values;
  }
  /// An array of the tensor's, named by that of the keys.
  [[nodiscard]] NKV_KERNEL static unsigned array(PackedTensor tensor, unsigned of_keys) {
    constexpr unsigned kApart = NKV_PAGE_ARRAY_V_ROWS - unsigned{NKV_PAGE_ARRAY_K_ROWS};
    static_assert(NKV_PAGE_ARRAY_V_EXPONENTS == NKV_PAGE_ARRAY_K_EXPONENTS + kApart &&
                  NKV_PAGE_ARRAY_V_EXCEPTIONS == NKV_PAGE_ARRAY_K_EXCEPTIONS + kApart);
    return tensor == kKeys ? of_keys : of_keys + kApart;
  }

  static constexpr std::uint32_t kWordBytes = sizeof(std::uint32_t);

  Block& block;
  PackWorkspace& own;
  const nkv_page_shape& shape;
  const nkv_page_layout& layout;
  std::byte* const start;
  const PackedRows keys;
  const PackedRows values;
  const PackedRows key_scales;

 private:
  [[nodiscard]] NKV_KERNEL PackedRows rows_of(const nearkv_cuda_pack_args& args,
                                              const nearkv_cuda_rows& rows) const {
    const std::uint32_t pages = args.tokens / NKV_PAGE_TOKENS;
    const std::uint64_t token = std::uint64_t{block.index() % pages} * NKV_PAGE_TOKENS;
    return {static_cast<const std::byte*>(rows.first) + block.index() / pages * rows.head_bytes +
                token * rows.token_bytes,
            rows.token_bytes};
  }
};

}  // namespace nearkv::cuda
