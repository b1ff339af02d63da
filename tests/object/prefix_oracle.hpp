// Longest prefixes, by brute force.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "object/prefix_tree.hpp"

namespace nearkv::test {

using Chain = std::vector<std::uint64_t>;

/// What PrefixTree promises, with no structure at all.
class PrefixOracle {
 public:
  bool insert(const PrefixTree::Block& block) {
    if (block.parent == block.fingerprint) return false;
    const auto known = blocks_.find(block.fingerprint);
    if (known != blocks_.end() && known->second.parent_known) {
      if (known->second.parent != block.parent) return false;
    } else if (known != blocks_.end() && block.parent &&
               descends(*block.parent, block.fingerprint)) {
      return false;
    }
    blocks_[block.fingerprint] = {true, block.parent, block.record};
    if (block.parent) blocks_.try_emplace(*block.parent);
    return true;
  }

  std::optional<std::uint32_t> erase(std::uint64_t fingerprint) {
    const auto known = blocks_.find(fingerprint);
    if (known == blocks_.end()) return std::nullopt;
    const std::optional<std::uint32_t> record = std::exchange(known->second.record, std::nullopt);
    for (bool dropped = true; dropped;) {
      dropped = std::erase_if(blocks_, [&](const auto& entry) {
                  return !entry.second.record && children(entry.first) == 0;
                }) > 0;
    }
    return record;
  }

  [[nodiscard]] std::vector<std::uint32_t> match(const Chain& chain) const {
    std::vector<std::uint32_t> records;
    for (std::size_t i = 0; i < chain.size(); ++i) {
      const auto known = blocks_.find(chain[i]);
      if (known == blocks_.end() || !known->second.record) break;
      if (i > 0 && known->second.parent != chain[i - 1]) break;
      records.push_back(*known->second.record);
    }
    return records;
  }

  [[nodiscard]] std::size_t children(std::uint64_t fingerprint) const {
    return static_cast<std::size_t>(std::ranges::count_if(
        blocks_, [&](const auto& entry) { return entry.second.parent == fingerprint; }));
  }

  [[nodiscard]] std::set<std::uint32_t> descendants(std::uint64_t fingerprint) const {
    std::set<std::uint32_t> records;
    for (const auto& [name, block] : blocks_) {
      if (name != fingerprint && block.record && descends(name, fingerprint)) {
        records.insert(*block.record);
      }
    }
    return records;
  }

  [[nodiscard]] std::size_t blocks() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        blocks_, [](const auto& entry) { return entry.second.record.has_value(); }));
  }
  [[nodiscard]] std::size_t holes() const { return blocks_.size() - blocks(); }

 private:
  struct Known {
    bool parent_known = false;
    std::optional<std::uint64_t> parent;
    std::optional<std::uint32_t> record;
  };

  [[nodiscard]] bool descends(std::uint64_t fingerprint, std::uint64_t from) const {
    while (fingerprint != from) {
      const auto known = blocks_.find(fingerprint);
      if (known == blocks_.end() || !known->second.parent) return false;
      fingerprint = *known->second.parent;
    }
    return true;
  }

  std::map<std::uint64_t, Known> blocks_;
};

}  // namespace nearkv::test
