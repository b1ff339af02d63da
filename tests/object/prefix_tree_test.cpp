// The prefix tree against a map of blocks that is searched by brute force.
#include "object/prefix_tree.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "prefix_oracle.hpp"
#include "support/seed.hpp"

namespace nearkv::test {
namespace {

using Block = PrefixTree::Block;

/// Blocks of engines that share prefixes. How likely a chain forks and ends decides its shape.
std::vector<Block> random_forest(Random& random, std::size_t count, std::uint32_t fork_percent,
                                 bool equal_tags) {
  std::vector<Block> blocks;
  std::set<std::uint64_t> used;
  while (blocks.size() < count) {
    Block block;
    block.fingerprint = equal_tags ? random() % 4096 << 32 | random() % 2 : random();
    if (!used.insert(block.fingerprint).second) continue;
    block.record = static_cast<std::uint32_t>(blocks.size());
    if (!blocks.empty() && random() % 50 != 0) {
      const bool forks = pick(random, 0, 99) < fork_percent;
      block.parent = blocks[forks ? random() % blocks.size() : blocks.size() - 1].fingerprint;
    }
    blocks.push_back(block);
  }
  return blocks;
}

Chain chain_to(const std::vector<Block>& blocks, std::size_t last) {
  Chain chain{blocks[last].fingerprint};
  for (std::optional<std::uint64_t> parent = blocks[last].parent; parent;) {
    chain.push_back(*parent);
    const auto above = std::ranges::find(blocks, *parent, &Block::fingerprint);
    parent = above == blocks.end() ? std::nullopt : above->parent;
  }
  std::ranges::reverse(chain);
  return chain;
}

void expect_equal(const PrefixTree& tree, const PrefixOracle& oracle, const Chain& chain) {
  std::vector<std::uint32_t> records(chain.size());
  records.resize(tree.longest_match(chain, records));
  ASSERT_EQ(records, oracle.match(chain));
  const std::uint64_t last = chain.back();
  ASSERT_EQ(tree.children(last), oracle.children(last));
  const std::vector<std::uint32_t> below = tree.descendants(last);
  ASSERT_EQ(std::set(below.begin(), below.end()), oracle.descendants(last));
  ASSERT_EQ(below.size(), oracle.descendants(last).size());
  const std::vector<std::uint32_t> own = oracle.match({last});
  ASSERT_EQ(tree.find(last), own.empty() ? std::nullopt : std::optional(own.front()));
}

void expect_equal(const PrefixTree& tree, const PrefixOracle& oracle,
                  const std::vector<Block>& blocks) {
  for (std::size_t i = 0; i < blocks.size(); i += 1 + blocks.size() / 100) {
    expect_equal(tree, oracle, chain_to(blocks, i));
  }
  ASSERT_EQ(tree.usage().blocks, oracle.blocks());
  ASSERT_EQ(tree.usage().holes, oracle.holes());
}

struct Shape {
  const char* name;
  std::size_t blocks;
  std::uint32_t fork_percent;
  bool equal_tags;
};
constexpr Shape kShapes[] = {
    {"LongRuns", 300, 1, false},
    {"SomeForks", 80, 20, false},
    {"ManyForks", 80, 80, false},
    {"EqualTags", 60, 20, true},
};

class PrefixTreeTest : public testing::TestWithParam<Shape> {};

TEST_P(PrefixTreeTest, MatchesAsABruteForceSearchDoes) {
  const Shape shape = GetParam();
  for (std::uint64_t number = 0; number < 6; ++number) {
    SCOPED_TRACE(case_name(number));
    Random random = case_random(number);
    const auto blocks = random_forest(random, shape.blocks, shape.fork_percent, shape.equal_tags);
    PrefixTree tree;
    PrefixOracle oracle;
    std::uint32_t present = 50;
    for (int step = 0; step < 2000; ++step) {
      if (step % 200 == 0) present = pick(random, 5, 95);
      const std::size_t chosen = random() % blocks.size();
      if (pick(random, 0, 99) < present) {
        Block block = blocks[chosen];
        block.record = static_cast<std::uint32_t>(step);
        // What nobody's engine says, but what may stand in a region.
        if (random() % 20 == 0) block.parent = blocks[random() % blocks.size()].fingerprint;
        if (random() % 200 == 0) block.parent = std::nullopt;
        ASSERT_EQ(tree.insert(block), oracle.insert(block)) << "step " << step;
      } else {
        const std::uint64_t fingerprint = blocks[chosen].fingerprint;
        ASSERT_EQ(tree.erase(fingerprint), oracle.erase(fingerprint)) << "step " << step;
      }
      if (step % 20 == 0) {
        Chain chain = chain_to(blocks, random() % blocks.size());
        if (random() % 4 == 0)
          chain =
              Chain(chain.begin() + pick(random, 0, static_cast<std::uint32_t>(chain.size() - 1)),
                    chain.end());
        if (random() % 4 == 0) chain[random() % chain.size()] = random();
        expect_equal(tree, oracle, chain);
        if (HasFatalFailure()) FAIL() << "step " << step;
      }
    }
    expect_equal(tree, oracle, blocks);
    if (HasFatalFailure()) return;
  }
}

TEST_P(PrefixTreeTest, TheOrderOfInsertsDoesNotMatter) {
  const Shape shape = GetParam();
  for (std::uint64_t number = 0; number < 4; ++number) {
    SCOPED_TRACE(case_name(number));
    Random random = case_random(number);
    const auto blocks = random_forest(random, shape.blocks, shape.fork_percent, shape.equal_tags);
    PrefixOracle oracle;
    for (const Block& block : blocks) ASSERT_TRUE(oracle.insert(block));
    std::vector<Block> order = blocks;
    if (number == 0) std::ranges::reverse(order);
    if (number > 1) std::ranges::shuffle(order, random);
    PrefixTree inserted;
    for (const Block& block : order) ASSERT_TRUE(inserted.insert(block));
    expect_equal(inserted, oracle, blocks);
    PrefixTree loaded;
    ASSERT_TRUE(loaded.load(order).empty());
    expect_equal(loaded, oracle, blocks);
    EXPECT_EQ(inserted.usage().holes, 0);
  }
}

TEST_P(PrefixTreeTest, NothingIsLeftWhenAllIsErased) {
  const Shape shape = GetParam();
  for (std::uint64_t number = 0; number < 4; ++number) {
    SCOPED_TRACE(case_name(number));
    Random random = case_random(number);
    auto blocks = random_forest(random, shape.blocks, shape.fork_percent, shape.equal_tags);
    PrefixTree tree;
    ASSERT_TRUE(tree.load(blocks).empty());
    std::ranges::shuffle(blocks, random);
    for (const Block& block : blocks) ASSERT_EQ(tree.erase(block.fingerprint), block.record);
    EXPECT_EQ(tree.usage().blocks, 0);
    EXPECT_EQ(tree.usage().holes, 0);
    EXPECT_EQ(tree.usage().runs, 0);
  }
}

TEST_P(PrefixTreeTest, LoadRefusesRepeatsAndCyclesAndTakesTheRest) {
  const Shape shape = GetParam();
  for (std::uint64_t number = 0; number < 6; ++number) {
    SCOPED_TRACE(case_name(number));
    Random random = case_random(number);
    auto blocks = random_forest(random, shape.blocks, shape.fork_percent, shape.equal_tags);
    std::erase_if(blocks, [&](const Block&) { return random() % 8 == 0; });
    for (Block& block : blocks) {
      if (random() % 30 == 0) block.parent = blocks[random() % blocks.size()].fingerprint;
      if (random() % 30 == 0) block.fingerprint = blocks[random() % blocks.size()].fingerprint;
    }
    std::map<std::uint64_t, Block> first;
    for (const Block& block : blocks) first.try_emplace(block.fingerprint, block);
    std::vector<Block> taken;
    for (const auto& [name, block] : first) {
      std::set<std::uint64_t> passed;
      auto at = first.find(name);
      while (at != first.end() && passed.insert(at->first).second) {
        at = at->second.parent ? first.find(*at->second.parent) : first.end();
      }
      if (at == first.end()) taken.push_back(block);
    }
    PrefixOracle oracle;
    for (const Block& block : taken) ASSERT_TRUE(oracle.insert(block));
    PrefixTree tree;
    const std::vector<std::uint32_t> refused = tree.load(blocks);
    ASSERT_EQ(refused.size(), blocks.size() - taken.size());
    for (const std::uint32_t block : refused) {
      const auto same = [&](const Block& other) { return other.record == blocks[block].record; };
      ASSERT_TRUE(std::ranges::none_of(taken, same));
    }
    expect_equal(tree, oracle, taken);
    if (HasFatalFailure()) return;
    for (const Block& block : taken) ASSERT_TRUE(tree.insert(block));
  }
}

INSTANTIATE_TEST_SUITE_P(, PrefixTreeTest, testing::ValuesIn(kShapes),
                         [](const auto& tested) { return std::string(tested.param.name); });

/// A chain of fingerprints that no other `name` has.
Chain chain_of(std::uint64_t name, std::size_t blocks) {
  Chain chain;
  Random random(name);
  for (std::size_t i = 0; i < blocks; ++i) chain.push_back(random());
  return chain;
}

bool insert_chain(PrefixTree* tree, std::optional<std::uint64_t> parent, const Chain& chain) {
  std::uint32_t record = 0;
  for (const std::uint64_t fingerprint : chain) {
    if (!tree->insert({fingerprint, parent, record++})) return false;
    parent = fingerprint;
  }
  return true;
}

TEST(PrefixTreeUseTest, OneBlockMayHaveVeryManyChildren) {
  constexpr std::uint64_t kUsers = 3000;
  const Chain prompt = chain_of(0, 10);
  PrefixTree tree;
  ASSERT_TRUE(insert_chain(&tree, std::nullopt, prompt));
  for (std::uint64_t user = 1; user <= kUsers; ++user) {
    ASSERT_TRUE(insert_chain(&tree, prompt.back(), chain_of(user, 2)));
  }
  EXPECT_EQ(tree.children(prompt.back()), kUsers);
  EXPECT_EQ(tree.descendants(prompt.front()).size(), 9 + 2 * kUsers);
  // A fork within the prompt must not cost its users.
  ASSERT_TRUE(insert_chain(&tree, prompt[4], chain_of(kUsers + 1, 2)));
  std::vector<std::uint32_t> records(13);
  for (std::uint64_t user = 1; user <= kUsers; ++user) {
    Chain chain = prompt;
    std::ranges::copy(chain_of(user, 3), std::back_inserter(chain));
    ASSERT_EQ(tree.longest_match(chain, records), 12);
    ASSERT_TRUE(tree.erase(chain[11]));
    ASSERT_TRUE(tree.erase(chain[10]));
  }
  EXPECT_EQ(tree.children(prompt.back()), 0);
  ASSERT_EQ(tree.erase(chain_of(kUsers + 1, 2)[1]), 1);
  ASSERT_EQ(tree.erase(chain_of(kUsers + 1, 2)[0]), 0);
  EXPECT_EQ(tree.usage().runs, 1);
}

TEST(PrefixTreeUseTest, NoRunGrowsBeyondItsBound) {
  constexpr std::size_t kBlocks = 3 * PrefixRuns::kMostBlocks;
  const Chain chain = chain_of(0, kBlocks);
  PrefixTree grown;
  ASSERT_TRUE(insert_chain(&grown, std::nullopt, chain));
  EXPECT_EQ(grown.usage().runs, 3);
  PrefixTree joined;
  for (std::size_t i = kBlocks; i-- > 1;) ASSERT_TRUE(joined.insert({chain[i], chain[i - 1], 0}));
  EXPECT_GE(joined.usage().runs, 3);
  EXPECT_LE(joined.usage().runs, 6);
}

TEST(PrefixTreeUseTest, TakesNoMoreMemoryThanItStates) {
  constexpr std::uint64_t kChains = 1500;
  constexpr std::size_t kBlocks = 100;
  PrefixTree inserted;
  std::vector<Block> blocks;
  for (std::uint64_t name = 0; name < kChains; ++name) {
    const Chain chain = chain_of(name, kBlocks);
    ASSERT_TRUE(insert_chain(&inserted, std::nullopt, chain));
    for (std::size_t i = 0; i < kBlocks; ++i) {
      blocks.push_back({chain[i], i == 0 ? std::nullopt : std::optional(chain[i - 1]), 0});
    }
  }
  PrefixTree loaded;
  ASSERT_TRUE(loaded.load(blocks).empty());
  for (const PrefixTree* const tree : {&inserted, &loaded}) {
    const PrefixTree::Usage usage = tree->usage();
    EXPECT_EQ(usage.runs, kChains);
    EXPECT_LT(static_cast<double>(usage.memory_bytes) / (kChains * kBlocks), 25.0);
  }
}

TEST(PrefixTreeUseTest, ReadersFindAStableChainWhileItsBranchesComeAndGo) {
  constexpr int kRounds = 60;
  const Chain trunk = chain_of(0, 300);
  PrefixTree tree;
  ASSERT_TRUE(insert_chain(&tree, std::nullopt, trunk));
  std::array<std::atomic<bool>, 64> in_tree{};
  std::atomic<bool> stop{false};
  const auto branch = [](std::size_t i) { return std::uint64_t{i} << 57 | i; };
  const auto read = [&] {
    std::vector<std::uint32_t> records(trunk.size() + 1);
    Random random(1);
    while (!stop) {
      EXPECT_EQ(tree.longest_match(trunk, records), trunk.size());
      EXPECT_EQ(records[trunk.size() - 1], trunk.size() - 1);
      const std::size_t i = random() % in_tree.size();
      Chain chain(trunk.begin(), trunk.begin() + static_cast<std::ptrdiff_t>(4 * i + 1));
      chain.push_back(branch(i));
      tree.longest_match(chain, records, [&](std::span<const std::uint32_t> found) {
        if (found.size() == chain.size()) {
          EXPECT_TRUE(in_tree[i]);
        }
      });
    }
  };
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) readers.emplace_back(read);
  const auto write = [&](std::size_t first) {
    for (int round = 0; round < kRounds; ++round) {
      for (std::size_t i = first; i < in_tree.size(); i += 2) {
        in_tree[i] = true;
        EXPECT_TRUE(tree.insert({branch(i), trunk[4 * i], 7}));
      }
      for (std::size_t i = first; i < in_tree.size(); i += 2) {
        EXPECT_EQ(tree.erase(branch(i)), 7);
        in_tree[i] = false;
      }
    }
  };
  std::thread other(write, 1);
  write(0);
  other.join();
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(tree.usage().blocks, trunk.size());
}

}  // namespace
}  // namespace nearkv::test
