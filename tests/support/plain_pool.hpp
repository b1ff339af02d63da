// A pool of sequences as a plain map: what forks, codecs, restarts and drops must leave.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "nearkv/pool.hpp"
#include "support/layer_rows.hpp"

namespace nearkv::test {

/// A page that one list or several hold.
struct PlainPage {
  std::size_t source = 0;  ///< Page of the rows that were appended.
  std::uint8_t codec = NKV_CODEC_NONE;
};
using PlainList = std::vector<std::shared_ptr<PlainPage>>;

/// Sequences of kLayers layers and kHeads KV heads. Each call is the Pool's of the same name, and
/// returns what that must return where there is always room.
class PlainPool {
 public:
  Status create_sequence(std::uint64_t id);
  Status fork(std::uint64_t parent, std::uint64_t child, std::uint32_t tokens);
  Status drop(std::uint64_t id);
  /// Pages [source, source + pages) of the rows.
  Status append(std::uint64_t id, std::uint16_t layer, std::size_t source, std::size_t pages);
  Status transcode(std::uint64_t id, std::uint8_t codec);
  Status transcode(std::uint64_t id, std::uint16_t layer, std::uint16_t kv_head,
                   std::span<const std::uint32_t> pages, std::uint8_t codec, std::uint32_t* moved);

  /// Null if there is no such sequence.
  [[nodiscard]] const PlainList* find(std::uint64_t id, std::uint16_t layer,
                                      std::uint16_t kv_head) const;
  [[nodiscard]] std::uint64_t sequences() const;
  /// Of all lists, each once.
  [[nodiscard]] std::uint64_t pages() const;

 private:
  struct Sequence {
    std::optional<std::uint64_t> shares_with;  ///< The parent of a fork of some tokens.
    bool dropped = false;  ///< Its number is taken as long as somebody was forked from it.
    std::array<PlainList, std::size_t{kLayers} * kHeads> lists;
  };
  [[nodiscard]] Sequence* find(std::uint64_t id);
  void forget_unshared();

  std::map<std::uint64_t, Sequence> sequences_;
};

}  // namespace nearkv::test
