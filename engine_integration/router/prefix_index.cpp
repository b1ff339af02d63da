#include "prefix_index.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "edge.hpp"

namespace nearkv::router {
namespace {

using Purpose = MemoryBudget::Purpose;

constexpr std::size_t kFirstSlots = 16;
constexpr std::size_t kLeastRetired = 16 << 10;  ///< Bytes for which readers are waited for.

/// So many that 60 % of them hold blocks; a table is full at 75 %.
std::size_t slots_for(std::size_t blocks) {
  return std::max(kFirstSlots, blocks + blocks / 3 * 2 + 1);
}

}  // namespace

PrefixIndex::PrefixIndex(std::size_t limit_bytes)
    : shards_(std::make_unique<std::array<Shard, kShards>>()), budget_(limit_bytes) {}

PrefixIndex::~PrefixIndex() {
  for (const HolderWord list : retired_lists_) list.free_list(&budget_);
  for (Shard& shard : *shards_) {
    const std::unique_ptr<BlockTable> table(shard.table.load());
    if (!table) continue;
    table->for_each([this](std::uint64_t, HolderWord holders) { holders.free_list(&budget_); });
  }
}

Status PrefixIndex::store(WorkerId worker, Tier tier, std::span<const std::uint64_t> hashes) {
  if (worker >= kMaxWorkers) return Status::kBadArgument;
  return at_edge([&] {
    std::size_t refused = 0;
    for (const std::uint64_t hash : hashes) {
      if (!change(worker, 0, mask_of(tier), hash)) ++refused;
    }
    stored_.fetch_add(hashes.size(), std::memory_order_relaxed);
    refused_.fetch_add(refused, std::memory_order_relaxed);
    free_retired();
    return refused == 0 ? Status::kOk : Status::kPoolFull;
  });
}

Status PrefixIndex::remove(WorkerId worker, Tier tier, std::span<const std::uint64_t> hashes) {
  if (worker >= kMaxWorkers) return Status::kBadArgument;
  return at_edge([&] {
    bool is_done = true;
    for (const std::uint64_t hash : hashes) is_done &= change(worker, mask_of(tier), 0, hash);
    removed_.fetch_add(hashes.size(), std::memory_order_relaxed);
    free_retired();
    return is_done ? Status::kOk : Status::kOutOfMemory;
  });
}

Status PrefixIndex::clear(WorkerId worker, TierMask tiers) {
  if (worker >= kMaxWorkers) return Status::kBadArgument;
  return at_edge([&] {
    bool is_done = true;
    for (Shard& shard : *shards_) {
      {
        const std::lock_guard lock(shard.writer);
        const BlockTable* const table = shard.table.load(std::memory_order_relaxed);
        if (table == nullptr) continue;
        table->for_each([&](std::uint64_t hash, HolderWord before) {
          const TierMask held = before.tiers_of(worker);
          if ((held & tiers) == 0) return;
          const auto left = static_cast<TierMask>(held & ~tiers);
          const std::optional<HolderWord> after = before.with({worker, left}, &budget_);
          is_done &= after.has_value() && put(&shard, hash, mixed(hash), *after);
        });
        shrink(&shard);
      }
      free_retired();
    }
    return is_done ? Status::kOk : Status::kOutOfMemory;
  });
}

std::size_t PrefixIndex::match(std::span<const std::uint64_t> chain, const WorkerSet& pools,
                               std::size_t workers, PrefixMatch* match) const {
  match->begin(workers, chain.size());
  const auto table_of = [this](std::uint64_t place) -> const BlockTable* {
    return (*shards_)[shard_of(place)].table.load(std::memory_order_seq_cst);
  };
  const auto prefetch = [&](std::uint64_t hash) {
    const std::uint64_t place = mixed(BlockTable::key_of(hash));
    if (const BlockTable* const table = table_of(place)) table->prefetch(place);
  };
  const ReaderEpochs::Reading reading = epochs_.read();
  for (const std::uint64_t hash : chain.first(std::min(kInFlight, chain.size()))) prefetch(hash);
  std::size_t looked_up = 0;
  while (looked_up < chain.size()) {
    if (looked_up + kInFlight < chain.size()) prefetch(chain[looked_up + kInFlight]);
    const std::uint64_t hash = BlockTable::key_of(chain[looked_up]);
    const std::uint64_t place = mixed(hash);
    if (const BlockTable* const table = table_of(place)) {
      table->find(hash, place).for_each([&](Holder holder) {
        pools.has(holder.worker) ? match->add_pooled() : match->add(holder);
      });
    }
    ++looked_up;
    if (!match->next()) break;
  }
  match->end();
  return looked_up;
}

std::vector<Holder> PrefixIndex::holders(std::uint64_t hash) const {
  std::vector<Holder> holders;
  hash = BlockTable::key_of(hash);
  const std::uint64_t place = mixed(hash);
  const ReaderEpochs::Reading reading = epochs_.read();
  if (const BlockTable* const table =
          (*shards_)[shard_of(place)].table.load(std::memory_order_seq_cst)) {
    table->find(hash, place).for_each([&](Holder holder) { holders.push_back(holder); });
  }
  return holders;
}

std::size_t PrefixIndex::blocks() const {
  std::size_t sum = 0;
  for (const Shard& shard : *shards_) {
    const std::lock_guard lock(shard.writer);
    const BlockTable* const table = shard.table.load(std::memory_order_relaxed);
    if (table != nullptr) sum += table->blocks();
  }
  return sum;
}

IndexCounters PrefixIndex::counters() const {
  return {stored_.load(), removed_.load(), unknown_removals_.load(), refused_.load()};
}

bool PrefixIndex::change(WorkerId worker, TierMask removed, TierMask added, std::uint64_t hash) {
  hash = BlockTable::key_of(hash);
  const std::uint64_t place = mixed(hash);
  Shard& shard = (*shards_)[shard_of(place)];
  const std::lock_guard lock(shard.writer);
  const BlockTable* const table = shard.table.load(std::memory_order_relaxed);
  const HolderWord before = table == nullptr ? HolderWord() : table->find(hash, place);
  const TierMask held = before.tiers_of(worker);
  const auto wanted = static_cast<TierMask>((held & ~removed) | added);
  if ((removed & ~held) != 0) unknown_removals_.fetch_add(1, std::memory_order_relaxed);
  if (wanted == held) return true;
  const std::optional<HolderWord> after = before.with({worker, wanted}, &budget_);
  if (!after) return false;
  if (!put(&shard, hash, place, *after)) {
    after->free_list(&budget_);
    return false;
  }
  if (after->empty()) shrink(&shard);
  return true;
}

bool PrefixIndex::put(Shard* shard, std::uint64_t hash, std::uint64_t place, HolderWord holders) {
  BlockTable* table = shard->table.load(std::memory_order_relaxed);
  const HolderWord before = table == nullptr ? HolderWord() : table->find(hash, place);
  if (table == nullptr || !table->put(hash, place, holders)) {
    if (!resize(shard)) return false;
    table = shard->table.load(std::memory_order_relaxed);
    if (!table->put(hash, place, holders)) return false;
  }
  retire(before);
  return true;
}

bool PrefixIndex::resize(Shard* shard) {
  BlockTable* const before = shard->table.load(std::memory_order_relaxed);
  const std::size_t slots = slots_for(before == nullptr ? 0 : before->blocks());
  const bool grows = before == nullptr || slots > before->slots();
  const std::size_t bytes = BlockTable::bytes_of(slots);
  if (!budget_.take(bytes, grows ? Purpose::kGrow : Purpose::kRearrange)) return false;
  std::unique_ptr<BlockTable> after;
  try {
    after = std::make_unique<BlockTable>(slots);
  } catch (const std::bad_alloc&) {
    budget_.give_back(bytes);
    return false;
  }
  if (before != nullptr) {
    before->for_each([&](std::uint64_t hash, HolderWord holders) {
      (void)after->put(hash, mixed(hash), holders);  // It has room: see slots_for.
    });
  }
  shard->table.store(after.release(), std::memory_order_seq_cst);
  retire(std::unique_ptr<BlockTable>(before));
  return true;
}

void PrefixIndex::shrink(Shard* shard) {
  const BlockTable* const table = shard->table.load(std::memory_order_relaxed);
  if (table->slots() > kFirstSlots && table->blocks() < table->slots() / 8) (void)resize(shard);
}

void PrefixIndex::retire(HolderWord word) {
  if (word.list_bytes() == 0) return;
  const std::lock_guard lock(retired_mutex_);
  retired_lists_.push_back(word);
  retired_bytes_ += word.list_bytes();
}

void PrefixIndex::retire(std::unique_ptr<BlockTable> table) {
  if (!table) return;
  const std::lock_guard lock(retired_mutex_);
  retired_bytes_ += BlockTable::bytes_of(table->slots());
  retired_tables_.push_back(std::move(table));
}

void PrefixIndex::free_retired() {
  std::vector<HolderWord> lists;
  std::vector<std::unique_ptr<BlockTable>> tables;
  {
    const std::lock_guard lock(retired_mutex_);
    if (retired_bytes_ <= kLeastRetired + budget_.used_bytes() / 32) return;
    lists.swap(retired_lists_);
    tables.swap(retired_tables_);
    retired_bytes_ = 0;
  }
  epochs_.wait_for_readers();
  for (const HolderWord list : lists) list.free_list(&budget_);
  for (const std::unique_ptr<BlockTable>& table : tables) {
    budget_.give_back(BlockTable::bytes_of(table->slots()));
  }
}

}  // namespace nearkv::router
