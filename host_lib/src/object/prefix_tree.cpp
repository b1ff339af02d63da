#include "object/prefix_tree.hpp"

namespace nearkv {
namespace {

/// How many leading values are equal. Looks at eight before it decides, so that it compiles to
/// vectors.
std::size_t common(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b) {
  constexpr std::size_t kAtOnce = 8;
  const std::size_t count = std::min(a.size(), b.size());
  std::size_t i = 0;
  for (; i + kAtOnce <= count; i += kAtOnce) {
    std::uint64_t difference = 0;
    for (std::size_t j = i; j < i + kAtOnce; ++j) difference |= a[j] ^ b[j];
    if (difference != 0) break;
  }
  while (i < count && a[i] == b[i]) ++i;
  return i;
}

}  // namespace

std::optional<PrefixTree::Place> PrefixTree::locate(std::uint64_t fingerprint) const {
  Place place;
  const auto in_run = [&](std::uint32_t run) {
    const auto fingerprints = PrefixRuns::fingerprints(runs_[run]);
    // Chains grow at their ends.
    place = {run, fingerprints.size() - 1};
    if (fingerprints.back() == fingerprint) return true;
    place.offset = static_cast<std::size_t>(std::ranges::find(fingerprints, fingerprint) -
                                            fingerprints.begin());
    return place.offset < fingerprints.size();
  };
  const std::uint32_t* const found =
      index_[shard_of(fingerprint)].find(FingerprintTable::tag(fingerprint), in_run);
  return found != nullptr ? std::optional(place) : std::nullopt;
}

std::optional<std::uint32_t> PrefixTree::child(std::uint32_t run, std::uint64_t fingerprint) const {
  const auto is_it = [&](std::uint32_t other) {
    return runs_[other].parent == run &&
           PrefixRuns::fingerprints(runs_[other]).front() == fingerprint;
  };
  const std::uint32_t first = runs_[run].first_child;
  if (!PrefixRuns::is_run(first)) return std::nullopt;
  if (is_it(first)) return first;
  if (runs_[run].children == 1) return std::nullopt;
  const std::uint32_t* const found =
      index_[shard_of(fingerprint)].find(FingerprintTable::tag(fingerprint), is_it);
  return found != nullptr ? std::optional(*found) : std::nullopt;
}

std::size_t PrefixTree::match(std::span<const std::uint64_t> chain,
                              std::span<std::uint32_t> records) const {
  if (chain.empty()) return 0;
  std::optional<Place> place = locate(chain.front());
  std::size_t matched = 0;
  while (place) {
    const PrefixRuns::Run& run = runs_[place->run];
    if (PrefixRuns::is_run(run.first_child)) __builtin_prefetch(&runs_[run.first_child]);
    const auto fingerprints = PrefixRuns::fingerprints(run).subspan(place->offset);
    const auto here = PrefixRuns::records(run).subspan(place->offset);
    const std::size_t equal = common(fingerprints, chain.subspan(matched));
    for (std::size_t i = 0; i < equal; ++i) {
      if (here[i] == kNoRecord) return matched;
      records[matched++] = here[i];
    }
    if (equal < fingerprints.size() || matched == chain.size()) break;
    const std::optional<std::uint32_t> next = child(place->run, chain[matched]);
    place = next ? std::optional(Place{*next, 0}) : std::nullopt;
  }
  return matched;
}

std::size_t PrefixTree::longest_match(std::span<const std::uint64_t> chain,
                                      std::span<std::uint32_t> records) const {
  return longest_match(chain, records, [](std::span<const std::uint32_t>) {});
}

void PrefixTree::reindex(std::span<const std::uint64_t> fingerprints, std::uint32_t from,
                         std::uint32_t to) {
  for (const std::uint64_t fingerprint : fingerprints) {
    index_[shard_of(fingerprint)].prefetch(FingerprintTable::tag(fingerprint));
  }
  for (const std::uint64_t fingerprint : fingerprints) {
    *index_[shard_of(fingerprint)].find(FingerprintTable::tag(fingerprint),
                                        [&](std::uint32_t run) { return run == from; }) = to;
  }
}

void PrefixTree::add(std::uint32_t run, std::uint64_t fingerprint, std::uint32_t record) {
  index_[shard_of(fingerprint)].insert(FingerprintTable::tag(fingerprint), run);
  runs_.push_back(run, fingerprint, record);
  ++(record == kNoRecord ? holes_ : blocks_);
}

/// Ends the run of a block with this block. Returns the run that then ends there: what moves to a
/// new run is what costs less.
std::uint32_t PrefixTree::end_run_after(const Place& place) {
  const std::size_t count = runs_[place.run].count;
  const std::size_t front = place.offset + 1;
  if (front == count) return place.run;
  if (count - front + runs_[place.run].children <= front) {
    const std::uint32_t back = runs_.create(PrefixRuns::kUnknown, count - front);
    runs_.append(back, runs_[place.run], front, count);
    reindex(PrefixRuns::fingerprints(runs_[back]), place.run, back);
    runs_.take_children(place.run, back);
    runs_.truncate(place.run, front);
    runs_.link(place.run, back);
    return place.run;
  }
  const std::uint32_t split = runs_.create(PrefixRuns::kUnknown, front);
  runs_.append(split, runs_[place.run], 0, front);
  reindex(PrefixRuns::fingerprints(runs_[split]), place.run, split);
  runs_.take_place(place.run, split);
  runs_.remove_front(place.run, front);
  runs_.link(split, place.run);
  return split;
}

/// Makes one run of a run and its only child, if they are not too long for that.
void PrefixTree::merge_child(std::uint32_t run) {
  if (runs_[run].children != 1) return;
  const std::uint32_t child = runs_[run].first_child;
  const PrefixRuns::Run& lower = runs_[child];
  if (runs_[run].count + lower.count > PrefixRuns::kMostBlocks) return;
  if (lower.count + lower.children <= runs_[run].count) {
    reindex(PrefixRuns::fingerprints(lower), child, run);
    runs_.append(run, lower, 0, lower.count);
    runs_.unlink(child);
    runs_.take_children(child, run);
    runs_.release(child);
  } else {
    reindex(PrefixRuns::fingerprints(runs_[run]), run, child);
    runs_.prepend(child, runs_[run]);
    runs_.unlink(child);
    runs_.take_place(run, child);
    runs_.release(run);
  }
}

/// The run that ends with a block of which only the fingerprint is known.
std::uint32_t PrefixTree::place_hole(std::uint64_t fingerprint) {
  const std::uint32_t run = runs_.create(PrefixRuns::kUnknown, 1);
  add(run, fingerprint, kNoRecord);
  return run;
}

bool PrefixTree::descends(std::uint32_t run, std::uint32_t from) const {
  while (PrefixRuns::is_run(run) && run != from) run = runs_[run].parent;
  return run == from;
}

bool PrefixTree::leads_to(std::uint64_t fingerprint, std::uint64_t later) const {
  const auto lock = lock_.read();
  const std::optional<Place> above = locate(fingerprint);
  const std::optional<Place> below = locate(later);
  if (!above || !below) return false;
  return above->run == below->run ? above->offset <= below->offset
                                  : descends(below->run, above->run);
}

/// Gives a block that is there its parent; false if it has another, or would descend from itself.
bool PrefixTree::place_under(const Place& place, std::optional<std::uint64_t> parent) {
  PrefixRuns::Run& run = runs_[place.run];
  if (place.offset > 0) return parent == PrefixRuns::fingerprints(run)[place.offset - 1];
  if (run.parent == PrefixRuns::kRoot) return !parent;
  if (run.parent != PrefixRuns::kUnknown) {
    return parent == PrefixRuns::fingerprints(runs_[run.parent]).back();
  }
  if (!parent) {
    run.parent = PrefixRuns::kRoot;
    return true;
  }
  const std::optional<Place> above = locate(*parent);
  if (above && descends(above->run, place.run)) return false;
  const std::uint32_t end = above ? end_run_after(*above) : place_hole(*parent);
  runs_.link(end, place.run);
  merge_child(end);
  return true;
}

bool PrefixTree::insert(const Block& block) {
  const auto lock = lock_.write();
  if (block.parent == block.fingerprint) return false;
  if (const std::optional<Place> place = locate(block.fingerprint)) {
    if (!place_under(*place, block.parent)) return false;
    const Place now = *locate(block.fingerprint);
    std::uint32_t& record = PrefixRuns::records(runs_[now.run])[now.offset];
    if (record == kNoRecord) {
      ++blocks_;
      --holes_;
    }
    record = block.record;
    return true;
  }
  if (!block.parent) {
    add(runs_.create(PrefixRuns::kRoot, 1), block.fingerprint, block.record);
    return true;
  }
  const std::optional<Place> above = locate(*block.parent);
  const std::uint32_t end = above ? end_run_after(*above) : place_hole(*block.parent);
  const bool goes_on = runs_[end].children == 0 && runs_[end].count < PrefixRuns::kMostBlocks;
  add(goes_on ? end : runs_.create(end, 1), block.fingerprint, block.record);
  return true;
}

/// Drops the holes at the end of a run without children, and the run with its last block.
void PrefixTree::trim(std::uint32_t run) {
  while (PrefixRuns::is_run(run) && runs_[run].children == 0) {
    const auto fingerprints = PrefixRuns::fingerprints(runs_[run]);
    const auto records = PrefixRuns::records(runs_[run]);
    std::size_t count = records.size();
    for (; count > 0 && records[count - 1] == kNoRecord; --count, --holes_) {
      FingerprintTable& table = index_[shard_of(fingerprints[count - 1])];
      table.erase(table.find(FingerprintTable::tag(fingerprints[count - 1]),
                             [&](std::uint32_t other) { return other == run; }));
    }
    if (count > 0) {
      runs_.truncate(run, count);
      return;
    }
    const std::uint32_t parent = runs_[run].parent;
    runs_.unlink(run);
    runs_.release(run);
    run = parent;
  }
  if (PrefixRuns::is_run(run)) merge_child(run);
}

bool PrefixTree::replace(std::uint64_t fingerprint, std::uint32_t from, std::uint32_t to) {
  const auto lock = lock_.write();
  const std::optional<Place> place = locate(fingerprint);
  if (!place || from == kNoRecord) return false;
  std::uint32_t& record = PrefixRuns::records(runs_[place->run])[place->offset];
  if (record != from) return false;
  record = to;
  return true;
}

std::optional<std::uint32_t> PrefixTree::erase(std::uint64_t fingerprint) {
  const auto lock = lock_.write();
  const std::optional<Place> place = locate(fingerprint);
  if (!place) return std::nullopt;
  std::uint32_t& slot = PrefixRuns::records(runs_[place->run])[place->offset];
  if (slot == kNoRecord) return std::nullopt;
  const std::uint32_t record = slot;
  slot = kNoRecord;
  --blocks_;
  ++holes_;
  trim(place->run);
  return record;
}

std::optional<std::uint32_t> PrefixTree::find(std::uint64_t fingerprint) const {
  const auto lock = lock_.read();
  const std::optional<Place> place = locate(fingerprint);
  if (!place) return std::nullopt;
  const std::uint32_t record = PrefixRuns::records(runs_[place->run])[place->offset];
  return record != kNoRecord ? std::optional(record) : std::nullopt;
}

std::size_t PrefixTree::children(std::uint64_t fingerprint) const {
  const auto lock = lock_.read();
  const std::optional<Place> place = locate(fingerprint);
  if (!place) return 0;
  const PrefixRuns::Run& run = runs_[place->run];
  return place->offset + 1 < run.count ? 1 : run.children;
}

std::vector<std::uint32_t> PrefixTree::children_of(std::uint64_t fingerprint) const {
  std::vector<std::uint32_t> found;
  const auto lock = lock_.read();
  const std::optional<Place> place = locate(fingerprint);
  if (!place) return found;
  const auto add = [&](std::uint32_t run, std::size_t offset) {
    const std::uint32_t record = PrefixRuns::records(runs_[run])[offset];
    if (record != kNoRecord) found.push_back(record);
  };
  if (place->offset + 1 < runs_[place->run].count) {
    add(place->run, place->offset + 1);
    return found;
  }
  for (std::uint32_t run = runs_[place->run].first_child; PrefixRuns::is_run(run);
       run = runs_[run].next_sibling) {
    add(run, 0);
  }
  return found;
}

std::vector<std::uint32_t> PrefixTree::descendants(std::uint64_t fingerprint) const {
  std::vector<std::uint32_t> found;
  const auto lock = lock_.read();
  const std::optional<Place> place = locate(fingerprint);
  if (!place) return found;
  std::vector<Place> left{{place->run, place->offset + 1}};
  while (!left.empty()) {
    const Place next = left.back();
    left.pop_back();
    for (const std::uint32_t record : PrefixRuns::records(runs_[next.run]).subspan(next.offset)) {
      if (record != kNoRecord) found.push_back(record);
    }
    for (std::uint32_t run = runs_[next.run].first_child; PrefixRuns::is_run(run);
         run = runs_[run].next_sibling) {
      left.push_back({run, 0});
    }
  }
  return found;
}

PrefixTree::Usage PrefixTree::usage() const {
  const auto lock = lock_.read();
  Usage usage{blocks_, holes_, runs_.runs(), sizeof(*this) + runs_.memory_bytes()};
  for (const FingerprintTable& table : index_) usage.memory_bytes += table.memory_bytes();
  return usage;
}

}  // namespace nearkv
