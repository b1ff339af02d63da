// Random rows of every type, form and oddity, and how they become pages on both devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "device_pair.hpp"
#include "support/reference.hpp"
#include "support/seed.hpp"

namespace nearkv::test {

enum class Content {
  kNormal,    ///< Channels of different scale.
  kSpecials,  ///< The same with NaN, infinities, subnormals and -0 strewn in.
  kZeros,     ///< Half of the channels are zero throughout.
  kEqual,     ///< A few rows repeated: ties everywhere.
  kWild,      ///< Any bit pattern.
  kTopics,    ///< Rows near those before them, a few of them large: what codes are made for.
  kClose,     ///< One row, of any magnitude, but for channels that sums in binary32 do not show.
};

/// Rows of one tensor: patterns of a type.
struct Rows {
  std::uint8_t dtype = NKV_DTYPE_BF16;
  std::size_t count = 0;
  std::size_t dim = 0;
  std::vector<std::uint32_t> patterns;  ///< [count][dim].
};

Rows random_rows(std::uint8_t dtype, std::size_t count, std::size_t dim, Content content,
                 Random& random);

/// Values of [first, first + rows) as doubles.
std::vector<double> numbers_of(const Rows& rows);

/// What all pages of a list look like.
struct ListShape {
  std::uint8_t dtype = NKV_DTYPE_BF16;
  std::uint8_t k_form = NKV_ROW_FORM_RAW;
  std::uint8_t v_form = NKV_ROW_FORM_RAW;
  std::uint16_t head_dim = 128;
  std::uint16_t value_dim = 128;
  bool key_scales = false;
  bool codes = false;  ///< With random gains and a random run of pages to a sign set.

  [[nodiscard]] std::string name() const;
};

/// Any shape that APPEND takes; `attendable`: with values.
ListShape random_shape(Random& random, bool attendable);

struct ListOnBoth {
  ListShape shape;
  std::uint32_t tokens = 0;  ///< A multiple of PAGE_TOKENS.
  std::uint64_t page_list = 0;
  std::uint32_t page_bytes = 0;
  Rows keys;
  Rows values;
  nkv_completion completion{};

  [[nodiscard]] std::uint32_t pages() const { return tokens / NKV_PAGE_TOKENS; }
  [[nodiscard]] std::uint64_t page_at(DevicePair& pair, std::size_t page) const;
  /// The first `visible` tokens as numbers; with v_form NONE values are the leading key channels.
  [[nodiscard]] KvNumbers numbers(std::size_t visible) const;
};

/// Random rows, and fresh places for their pages, in both devices' memory.
nkv_append_command prepare_append(DevicePair& pair, const ListShape& shape, std::uint32_t pages,
                                  Content content, Random& random, ListOnBoth* list);

/// Appends random rows to both, expecting the same completion and the same pages.
ListOnBoth append_to_both(DevicePair& pair, const ListShape& shape, std::uint32_t pages,
                          Content content, Random& random);

/// Finite query rows [rows][dim] whose logits over the list have a moderate spread; every other one
/// leans towards a key. In the type that is named.
Rows random_queries(const ListOnBoth& list, std::uint8_t dtype, std::size_t rows, Random& random);

/// Puts rows into both devices, contiguous.
std::uint64_t store_rows(DevicePair& pair, const Rows& rows);

}  // namespace nearkv::test
