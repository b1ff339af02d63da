// A PrefixTree from all of its blocks at once, as a restart scan finds them.
#include "object/prefix_tree.hpp"
#include "object/shard_order.hpp"

namespace nearkv {

/// Finds the children of every block, then lays out the runs from the beginnings of chains to their
/// ends, so that each is written once. Blocks that no beginning leads to descend from themselves.
class PrefixTreeLoad {
 public:
  PrefixTreeLoad(PrefixTree* tree, std::span<const PrefixTree::Block> blocks)
      : tree_(*tree), blocks_(blocks), links_(blocks.size()) {}

  void run();
  /// Places of the blocks that no run has taken.
  [[nodiscard]] std::vector<std::uint32_t> refused() const;

 private:
  static constexpr std::uint32_t kNone = PrefixRuns::kNone;
  static constexpr std::uint32_t kRepeated = PrefixRuns::kUnknown;  ///< In place of a run.

  struct Links {
    std::uint32_t first_child = kNone;
    std::uint32_t next_sibling = kNone;
    std::uint32_t run = kNone;
  };
  struct Named {
    std::uint64_t fingerprint;
    std::uint32_t block;
  };
  struct Head {
    std::uint32_t block;
    std::uint32_t parent_run;
  };
  using Order = ShardOrder<Named, PrefixTree::kShards>;

  template <typename NameOf>
  [[nodiscard]] Order order_by(NameOf name_of) const;
  void index(FingerprintTable* table, std::span<const Named> named);
  void link(const FingerprintTable& table, std::span<const Named> named,
            std::span<const Named> by_parent);
  void write_run(const Head& head);
  void point_to_runs(FingerprintTable* table, std::span<const Named> named);

  PrefixTree& tree_;
  std::span<const PrefixTree::Block> blocks_;
  std::vector<Links> links_;  ///< By block.
  std::vector<Head> heads_;   ///< Whose runs are to be written.
  std::vector<std::uint32_t> orphans_;
};

template <typename NameOf>
PrefixTreeLoad::Order PrefixTreeLoad::order_by(NameOf name_of) const {
  return Order(
      blocks_, [&](const PrefixTree::Block& block) { return PrefixTree::shard_of(name_of(block)); },
      [&](const PrefixTree::Block& block, std::uint32_t number) {
        return Named{name_of(block), number};
      });
}

/// Places in `named`, until runs are known.
void PrefixTreeLoad::index(FingerprintTable* table, std::span<const Named> named) {
  table->reserve(named.size());
  for (std::uint32_t at = 0; at < named.size(); ++at) {
    const std::uint64_t fingerprint = named[at].fingerprint;
    const std::uint32_t tag = FingerprintTable::tag(fingerprint);
    const auto is_it = [&](std::uint32_t other) { return named[other].fingerprint == fingerprint; };
    if (table->find(tag, is_it) != nullptr) {
      links_[named[at].block].run = kRepeated;
    } else {
      table->insert(tag, at);
    }
  }
}

void PrefixTreeLoad::link(const FingerprintTable& table, std::span<const Named> named,
                          std::span<const Named> by_parent) {
  for (const Named& child : by_parent) {
    if (links_[child.block].run == kRepeated) continue;
    const std::uint32_t* const found =
        table.find(FingerprintTable::tag(child.fingerprint),
                   [&](std::uint32_t at) { return named[at].fingerprint == child.fingerprint; });
    if (found == nullptr) {
      orphans_.push_back(child.block);
      continue;
    }
    const std::uint32_t parent = named[*found].block;
    if (parent == child.block) {
      // Stands under its own name: has no parent, or claims to be its own.
      if (!blocks_[parent].parent) heads_.push_back({parent, PrefixRuns::kRoot});
      continue;
    }
    links_[child.block].next_sibling = links_[parent].first_child;
    links_[parent].first_child = child.block;
  }
}

void PrefixTreeLoad::write_run(const Head& head) {
  std::array<std::uint32_t, PrefixRuns::kMostBlocks> run;
  std::size_t count = 0;
  std::uint32_t child = head.block;
  do {
    __builtin_prefetch(&blocks_[child]);
    run[count++] = child;
    child = links_[child].first_child;
  } while (child != kNone && links_[child].next_sibling == kNone && count < run.size());
  const std::uint32_t number = tree_.runs_.create(head.parent_run, count);
  for (const std::uint32_t block : std::span(run).first(count)) {
    tree_.runs_.push_back(number, blocks_[block].fingerprint, blocks_[block].record);
    links_[block].run = number;
  }
  tree_.blocks_ += count;
  for (; child != kNone; child = links_[child].next_sibling) heads_.push_back({child, number});
}

void PrefixTreeLoad::point_to_runs(FingerprintTable* table, std::span<const Named> named) {
  for (std::uint32_t at = 0; at < named.size(); ++at) {
    if (links_[named[at].block].run != kNone) continue;
    table->erase(table->find(FingerprintTable::tag(named[at].fingerprint),
                             [&](std::uint32_t other) { return other == at; }));
  }
  table->for_each([&](std::uint32_t& value) { value = links_[named[value].block].run; });
}

void PrefixTreeLoad::run() {
  const Order names = order_by([](const PrefixTree::Block& block) { return block.fingerprint; });
  {
    const Order parents = order_by(
        [](const PrefixTree::Block& block) { return block.parent.value_or(block.fingerprint); });
    for (std::size_t i = 0; i < PrefixTree::kShards; ++i) {
      index(&tree_.index_[i], names.of(i));
    }
    // Only now are all repeated blocks known.
    for (std::size_t i = 0; i < PrefixTree::kShards; ++i) {
      link(tree_.index_[i], names.of(i), parents.of(i));
    }
  }
  for (const std::uint32_t orphan : orphans_) heads_.push_back({orphan, PrefixRuns::kUnknown});
  while (!heads_.empty()) {
    const Head head = heads_.back();
    heads_.pop_back();
    write_run(head);
  }
  for (std::size_t i = 0; i < PrefixTree::kShards; ++i) {
    point_to_runs(&tree_.index_[i], names.of(i));
  }
  for (const std::uint32_t orphan : orphans_) {
    // Cannot fail: the parent is not there, or only as a hole before another orphan.
    (void)tree_.place_under({links_[orphan].run, 0}, blocks_[orphan].parent);
  }
}

std::vector<std::uint32_t> PrefixTreeLoad::refused() const {
  std::vector<std::uint32_t> blocks;
  for (std::uint32_t block = 0; block < links_.size(); ++block) {
    if (!PrefixRuns::is_run(links_[block].run)) blocks.push_back(block);
  }
  return blocks;
}

std::vector<std::uint32_t> PrefixTree::load(std::span<const Block> blocks) {
  const auto lock = lock_.write();
  PrefixTreeLoad loading(this, blocks);
  loading.run();
  return loading.refused();
}

}  // namespace nearkv
