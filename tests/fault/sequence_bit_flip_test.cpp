// Bits flip anywhere in a closed pool of sequences: never wrong rows, and only the page that was
// hit is lost, with what follows it where it is shared.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "fault/cold_answers.hpp"
#include "fault/sequence_world.hpp"
#include "nkv_abi.h"
#include "support/environment.hpp"
#include "support/fault_report.hpp"

namespace nearkv::test {
namespace {

/// A published page in a closed pool.
struct PagePlace {
  std::size_t at = 0;
  std::size_t bytes = 0;
  std::uint16_t layer = 0;
  std::uint16_t kv_head = 0;
  std::size_t index = 0;  ///< In its sequences.
  std::uint32_t seed = 0;
};

struct World {
  std::vector<std::byte> memory;
  nkv_pool_header header{};
  Sequences sequences;
  std::vector<PagePlace> pages;
};

template <typename T>
T read_at(const std::vector<std::byte>& memory, std::uint64_t at) {
  T value{};
  std::memcpy(&value, &memory[at], sizeof(value));
  return value;
}

World make_world() {
  World world;
  const PoolMemoryBytes memory;
  std::map<std::tuple<std::uint64_t, std::uint16_t, std::size_t>, std::uint32_t> appended;
  {
    const std::unique_ptr<Pool> pool = create_pool(memory.bytes(), {});
    Random random = case_random(0);
    for (int step = 0; step < 160 || world.sequences.size() < 4; ++step) {
      const SequenceStep next = random_step(world.sequences, random);
      if (run_step(pool.get(), next) != Status::kOk) continue;
      record(next, &world.sequences);
      if (next.kind != SequenceStep::Kind::kAppend) continue;
      const auto& list = world.sequences.at(next.sequence)[next.layer];
      for (std::size_t page = list.size() - next.pages; page < list.size(); ++page) {
        appended[{next.sequence, next.layer, page}] = list[page];
      }
    }
  }
  world.memory.assign(memory.bytes().begin(), memory.bytes().end());
  world.header = read_at<nkv_pool_header>(world.memory, 0);
  for (std::size_t slab = 0; slab < world.header.slabs; ++slab) {
    const auto record = read_at<nkv_slab_record>(
        world.memory, world.header.slabs_at + slab * sizeof(nkv_slab_record));
    const std::uint64_t slot_bytes = record.slot_bytes;
    for (std::uint64_t slot = 0; slot_bytes != 0 && slot < world.header.slab_bytes / slot_bytes;
         ++slot) {
      const std::size_t at =
          world.header.data_at + slab * world.header.slab_bytes + slot * slot_bytes;
      const auto page = read_at<nkv_page_header>(world.memory, at);
      if (page.magic != NKV_PAGE_MAGIC) continue;
      const std::size_t index = page.first_token / NKV_PAGE_TOKENS;
      world.pages.push_back({at, sizeof(page) + page.payload_bytes, page.layer, page.kv_head, index,
                             appended.at({page.sequence_id, page.layer, index})});
    }
  }
  EXPECT_GT(world.pages.size(), 20U);
  return world;
}

/// Where to flip: anywhere, or in one of the places on which much depends.
std::size_t place(const World& world, Random& random) {
  const nkv_pool_header& header = world.header;
  const auto in = [&](std::uint64_t begin, std::uint64_t bytes) {
    return begin + random() % bytes;
  };
  const PagePlace& page = world.pages[random() % world.pages.size()];
  switch (random() % 6) {
    case 0:
      return in(0, sizeof(nkv_pool_header));
    case 1:
      return in(header.slabs_at, header.slabs * sizeof(nkv_slab_record));
    case 2:
      return in(header.sequences_at, 2 * header.max_sequences * sizeof(nkv_sequence_record));
    case 3:
      return in(page.at, sizeof(nkv_page_header));
    case 4:
      return in(page.at, page.bytes);
    default:
      return in(0, world.memory.size());
  }
}

/// Pages of a layer that can be read, up to the first that cannot.
std::vector<std::uint32_t> read_layer(Pool* pool, std::uint64_t id, std::uint16_t layer,
                                      std::string* wrong) {
  std::vector<std::uint32_t> seeds;
  std::uint32_t tokens = 0;
  EXPECT_EQ(pool->tokens(id, layer, &tokens), Status::kOk) << "sequence " << id << " was lost";
  for (std::uint32_t page = 0; page < tokens / NKV_PAGE_TOKENS; ++page) {
    const auto seed = read_page(pool, id, layer, page, wrong);
    if (!seed) break;
    seeds.push_back(*seed);
  }
  return seeds;
}

/// What is wrong with queries over a sequence's compressed pages of a KV head, if anything is.
/// Counts them.
std::optional<std::string> judge_cold(
    Pool* pool, std::uint64_t id, std::uint16_t head,
    const std::array<std::vector<std::uint32_t>, kPoolLayers>& layers, bool may_be_corrupt,
    std::uint64_t* cold_answers) {
  for (std::uint16_t layer = 0; layer < kPoolLayers; ++layer) {
    const std::optional<ColdAnswer> answer = ask_cold(pool, id, layer, head);
    if (!answer) continue;
    ++*cold_answers;
    for (const Status status : {answer->decoded.status, answer->skipped.status}) {
      if (status == Status::kOk || (may_be_corrupt && status == Status::kCorrupt)) continue;
      return "sequence " + std::to_string(id) + ": " + pool->last_error();
    }
    // Of pages that were lost those behind them are gone too.
    const std::size_t left = std::min(answer->codecs.size(), layers[layer].size());
    if (auto failure = judge_answer(*answer, std::span(layers[layer]).first(left))) return failure;
  }
  return std::nullopt;
}

/// Whether all that is left of the sequences is what may be, a page having been hit, or none.
/// Counts the sequences that lost something.
std::optional<std::string> judge(Pool* pool, const World& world, const PagePlace* hit,
                                 std::size_t* losers, std::uint64_t* cold_answers) {
  std::string wrong;
  for (const auto& [id, layers] : world.sequences) {
    const bool shares = hit != nullptr && layers[hit->layer].size() > hit->index &&
                        layers[hit->layer][hit->index] == hit->seed;
    const auto head = hit != nullptr ? hit->kv_head : static_cast<std::uint16_t>(id % kPoolHeads);
    if (auto failure = judge_cold(pool, id, head, layers, shares, cold_answers)) return failure;
    const Status warmed = pool->transcode(id, NKV_CODEC_NONE);
    if (warmed != Status::kOk && !(shares && warmed == Status::kCorrupt)) {
      return "sequence " + std::to_string(id) + ": " + pool->last_error();
    }
    bool lost = false;
    for (std::uint16_t layer = 0; layer < kPoolLayers; ++layer) {
      const auto found = read_layer(pool, id, layer, &wrong);
      if (!wrong.empty()) return wrong;
      const std::string where =
          "sequence " + std::to_string(id) + ", layer " + std::to_string(layer);
      if (found.size() > layers[layer].size() ||
          !std::equal(found.begin(), found.end(), layers[layer].begin())) {
        return where + " holds something else";
      }
      if (found == layers[layer]) continue;
      lost = true;
      // A compressed sequence stays so from the damaged page on, in whichever layer.
      if (!shares || (found.size() < hit->index && warmed == Status::kOk)) {
        return where + " lost pages that were not hit";
      }
    }
    *losers += lost ? 1 : 0;
  }
  return std::nullopt;
}

TEST(SequenceBitFlipTest, AWrongBitCostsAtMostThePageThatItHitAndWhatFollows) {
  const std::uint64_t trials = by_size(800, 16000);
  keep_heap();
  const World world = make_world();
  std::uint64_t losses = 0;
  std::uint64_t cold_answers = 0;
  for (std::uint64_t trial = 0; trial < trials; ++trial) {
    Random random = case_random(trial);
    const std::size_t at = place(world, random);
    SCOPED_TRACE("byte " + std::to_string(at) + ", " + case_name(trial));
    const PoolMemoryBytes memory(world.memory);
    memory.bytes()[at] ^= static_cast<std::byte>(1U << random() % 8);
    const auto hit = std::ranges::find_if(world.pages, [&](const PagePlace& page) {
      return at >= page.at && at < page.at + page.bytes;
    });
    const PagePlace* const page = hit == world.pages.end() ? nullptr : &*hit;
    std::string reason;
    std::unique_ptr<Pool> pool = open_pool(memory.bytes(), {}, &reason);
    ASSERT_NE(pool, nullptr) << reason;
    const bool hit_header = page != nullptr && at - page->at < sizeof(nkv_page_header);
    if (hit_header) {
      ASSERT_EQ(pool->usage().damaged_pages, 1U) << "a loss that nobody hears of";
    }
    std::size_t losers = 0;
    const auto failure = judge(pool.get(), world, page, &losers, &cold_answers);
    ASSERT_FALSE(failure) << *failure;
    losses += losers != 0 ? 1 : 0;
    if (page != nullptr && !hit_header) continue;

    // What is appended in the place of what was lost is nobody else's, then and later.
    std::string wrong;
    Sequences left = look(pool.get(), &wrong);
    for (const auto& [id, layers] : world.sequences) {
      SequenceStep step;
      step.kind = SequenceStep::Kind::kAppend;
      step.sequence = id;
      step.pages = 1;
      step.seed = static_cast<std::uint32_t>(id);
      ASSERT_EQ(run_step(pool.get(), step), Status::kOk);
      record(step, &left);
    }
    pool = open_pool(memory.bytes(), {}, &reason);
    ASSERT_NE(pool, nullptr) << reason;
    const Sequences found = look(pool.get(), &wrong);
    ASSERT_EQ(wrong, "");
    const auto difference = compare(found, left, left);
    ASSERT_FALSE(difference) << *difference;
  }
  EXPECT_GT(losses, trials / 20) << "the flips hit next to nothing";
  EXPECT_GT(cold_answers, trials / 2) << "hardly anything was compressed";
  report_fault("bit flip anywhere in a closed pool of sequences", trials, trials, 0);
}

}  // namespace
}  // namespace nearkv::test
