// Pages of codes beside a layer's blocks: which there are, and what lists of commands say of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "attend/code_speed.hpp"
#include "nearkv/block_attention.hpp"
#include "nearkv/block_codes.hpp"
#include "nkv_abi.h"
#include "page/encode.hpp"
#include "page/lent_rows.hpp"
#include "page/window.hpp"

namespace nearkv {

/// 64 tokens of a block that are going to have codes.
struct UncodedTokens {
  std::uint32_t number = 0;    ///< block * parts + part.
  std::uint32_t position = 0;  ///< Of their page in its sequence.
};

/// A page of each KV head for every 64 tokens of a cache. Those of tokens that are not all written
/// have no codes, but say what a list has to know of its rows.
///
/// Thread safety: encode() and what is const at once, of different tokens or heads; the others
/// alone.
class CodePages {
 public:
  /// `gains` [kv_heads][head_dim]. Throws std::bad_alloc.
  CodePages(const BlockCache& cache, std::span<const std::int8_t> gains);

  [[nodiscard]] bool is_of(const BlockCache& cache) const;

  void forget(std::span<const std::int64_t> slots);

  /// False, and nothing is done, for gains of another shape.
  bool set_gains(std::span<const std::int8_t> gains);

  /// Of one sequence, whose blocks are `table`: lists its tokens from `first` up to `end` that fill
  /// pages without codes, which count as encoded from now on, and describes the newest ones.
  void bring_up_to_date(const std::int32_t* table, std::size_t first, std::size_t end,
                        std::vector<UncodedTokens>* uncoded);

  /// Makes codes. Throws std::bad_alloc.
  void encode(const UncodedTokens& tokens, std::size_t head);

  /// They have not been encoded after all.
  void give_up(std::span<const UncodedTokens> tokens);

  /// Entries of a sequence's pages that have tokens from `first` up to `end`; older ones are zero.
  /// False if a row of these pages holds a NaN or an infinity.
  bool list(const std::int32_t* table, std::size_t head, std::size_t first, std::size_t end,
            std::vector<nkv_page_entry>* entries) const;

  [[nodiscard]] std::size_t most_bytes() const { return memory_.bytes().size(); }

  [[nodiscard]] Window window() const { return {memory_.bytes(), &lent_rows_}; }

  BlockCodes::Counts counts;
  CodeSpeed speed;

 private:
  /// Zeros that pages begin in at a whole number of grains. What is never written takes no memory.
  class Memory {
   public:
    explicit Memory(std::size_t bytes);
    [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

   private:
    struct Free {
      void operator()(std::byte* bytes) const { std::free(bytes); }
    };
    std::unique_ptr<std::byte, Free> memory_;
    std::span<std::byte> bytes_;
  };

  /// What is known of one.
  struct Page {
    nkv_page_entry entry{};
    RowSummary rows;
  };

  [[nodiscard]] LentRows::Shape rows_shape() const;
  void describe(const UncodedTokens& tokens, std::size_t rows);
  /// Says in its entry where a page is.
  [[nodiscard]] PageIdentity begin_page(const UncodedTokens& tokens, std::size_t place);
  [[nodiscard]] std::uint32_t number_of(const std::int32_t* table, std::size_t page) const {
    return static_cast<std::uint32_t>(table[page / parts_]) * parts_ +
           static_cast<std::uint32_t>(page % parts_);
  }
  [[nodiscard]] std::size_t place_of(std::uint32_t number, std::size_t head) const {
    return std::size_t{number} * cache_.kv_heads + head;
  }
  [[nodiscard]] std::span<std::byte> page_at(std::size_t place) const {
    return memory_.bytes().subspan(place * page_bytes_, page_bytes_);
  }

  BlockCache cache_;
  std::uint32_t parts_;  ///< Of a block.
  nkv_page_shape shape_;
  std::vector<std::int8_t> gains_;
  std::size_t page_bytes_;
  Memory memory_;
  LentRows lent_rows_;
  std::vector<Page> pages_;  ///< By place.
  /// By number: rows from the first on that its pages say something of; all of them in codes.
  std::vector<std::uint8_t> known_;
};

}  // namespace nearkv
