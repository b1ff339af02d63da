#include "chains.hpp"

#include <algorithm>
#include <random>
#include <stdexcept>

#include "replay/trace.hpp"

namespace nearkv::bench {
namespace {

/// Mixes a salt into a block's number, so that one trace stands for many tenants.
std::uint64_t block_fingerprint(std::uint64_t block, std::uint64_t salt) {
  std::uint64_t mixed = (block + 1) * 0x9e3779b97f4a7c15 ^ (salt + 1) * 0xd1b54a32d192ed03;
  mixed = (mixed ^ mixed >> 32) * 0xd6e8feb86659fd93;
  return mixed ^ mixed >> 32;
}

}  // namespace

std::vector<Chain> made_up_chains(std::size_t blocks, std::uint32_t shortest, std::uint32_t longest,
                                  std::uint64_t seed) {
  constexpr std::size_t kPromptBlocks = 8;
  std::mt19937_64 random(seed);
  std::vector<Chain> chains;
  Chain prompt(kPromptBlocks);
  for (std::uint64_t& block : prompt) block = random();
  for (std::size_t made = 0; made < blocks;) {
    Chain chain = prompt;
    const std::size_t length = std::uniform_int_distribution(shortest, longest)(random);
    if (!chains.empty() && random() % 3 == 0) {
      const Chain& earlier = chains[random() % chains.size()];
      const std::size_t shared = random() % std::min(earlier.size(), length);
      chain.assign(earlier.begin(), earlier.begin() + static_cast<std::ptrdiff_t>(shared));
    }
    made += length - std::min(length, chain.size());
    while (chain.size() < length) chain.push_back(random());
    chains.push_back(std::move(chain));
  }
  return chains;
}

std::vector<Chain> trace_chains(const std::string& path, std::size_t blocks) {
  replay::Trace trace;
  std::string reason;
  if (replay::load_trace(path, replay::TraceNeeds::kBlocks, &trace, &reason) != Status::kOk) {
    throw std::runtime_error(reason);
  }
  std::vector<Chain> chains;
  for (std::uint64_t tenant = 0; tenant * trace.hash_ids.size() < blocks; ++tenant) {
    for (std::size_t request = 0; request < trace.requests(); ++request) {
      Chain& chain = chains.emplace_back();
      for (const std::uint32_t block : trace.request(request)) {
        chain.push_back(block_fingerprint(trace.hash_ids[block], tenant));
      }
    }
  }
  return chains;
}

}  // namespace nearkv::bench
