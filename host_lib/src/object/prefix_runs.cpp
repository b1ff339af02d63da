#include "object/prefix_runs.hpp"

#include <new>

namespace nearkv {
namespace {

constexpr std::size_t kBlockBytes = sizeof(std::uint64_t) + sizeof(std::uint32_t);
constexpr std::size_t kHeapBytes = 16;  ///< What the heap adds to an allocation.

/// Room is had for a few blocks more than needed: a long run grows seldom, a short one wastes
/// little.
std::size_t room(std::size_t blocks) {
  const std::size_t step = blocks <= 16 ? 2 : blocks <= 32 ? 4 : 8;
  return (blocks + step - 1) / step * step;
}

}  // namespace

std::uint32_t PrefixRuns::create(std::uint32_t parent, std::size_t blocks) {
  if (first_free_ == kNone) {
    if (created_ == kMostRuns) throw std::bad_alloc();
    if (created_ % kPage == 0) pages_.push_back(std::make_unique<Run[]>(kPage));
    (*this)[created_].next_sibling = kNone;
    first_free_ = created_++;
  }
  const std::uint32_t number = first_free_;
  Run& run = (*this)[number];
  resize(run, blocks);
  first_free_ = run.next_sibling;
  ++runs_;
  link(parent, number);
  return number;
}

void PrefixRuns::release(std::uint32_t number) {
  Run& run = (*this)[number];
  resize(run, 0);
  run.next_sibling = first_free_;
  first_free_ = number;
  --runs_;
}

void PrefixRuns::resize(Run& run, std::size_t blocks) {
  const std::size_t capacity = room(blocks);
  if (capacity == run.capacity) return;
  const auto count = static_cast<std::uint16_t>(std::min(blocks, std::size_t{run.count}));
  Run resized;
  resized.count = count;
  resized.capacity = static_cast<std::uint16_t>(capacity);
  if (capacity != 0) {
    resized.blocks = std::make_unique_for_overwrite<std::byte[]>(capacity * kBlockBytes);
    std::ranges::copy(fingerprints(run).first(count), fingerprints(resized).begin());
    std::ranges::copy(records(run).first(count), records(resized).begin());
    block_bytes_ += capacity * kBlockBytes + kHeapBytes;
  }
  if (run.capacity != 0) block_bytes_ -= run.capacity * kBlockBytes + kHeapBytes;
  run.blocks = std::move(resized.blocks);
  run.count = resized.count;
  run.capacity = resized.capacity;
}

void PrefixRuns::push_back(std::uint32_t number, std::uint64_t fingerprint, std::uint32_t record) {
  Run& run = (*this)[number];
  if (run.count == run.capacity) resize(run, run.count + std::size_t{1});
  ++run.count;
  fingerprints(run).back() = fingerprint;
  records(run).back() = record;
}

void PrefixRuns::append(std::uint32_t number, const Run& from, std::size_t begin, std::size_t end) {
  Run& run = (*this)[number];
  const std::size_t before = run.count;
  const std::size_t added = end - begin;
  if (before + added > run.capacity) resize(run, before + added);
  run.count = static_cast<std::uint16_t>(before + added);
  std::ranges::copy(fingerprints(from).subspan(begin, added), &fingerprints(run)[before]);
  std::ranges::copy(records(from).subspan(begin, added), &records(run)[before]);
}

void PrefixRuns::prepend(std::uint32_t number, const Run& from) {
  Run& run = (*this)[number];
  const std::size_t before = run.count;
  const std::size_t added = from.count;
  if (before + added > run.capacity) resize(run, before + added);
  run.count = static_cast<std::uint16_t>(before + added);
  const auto put = [&](auto to, auto first) {
    std::ranges::copy_backward(to.first(before), to.end());
    std::ranges::copy(first, to.begin());
  };
  put(fingerprints(run), fingerprints(from));
  put(records(run), records(from));
}

void PrefixRuns::truncate(std::uint32_t number, std::size_t blocks) {
  Run& run = (*this)[number];
  run.count = static_cast<std::uint16_t>(blocks);
  if (2 * blocks < run.capacity) resize(run, blocks);
}

void PrefixRuns::remove_front(std::uint32_t number, std::size_t blocks) {
  Run& run = (*this)[number];
  const auto drop = [&](auto values) { std::ranges::copy(values.subspan(blocks), values.begin()); };
  drop(fingerprints(run));
  drop(records(run));
  truncate(number, run.count - blocks);
}

void PrefixRuns::link(std::uint32_t parent, std::uint32_t child) {
  Run& run = (*this)[child];
  run.parent = parent;
  run.previous_sibling = kNone;
  run.next_sibling = kNone;
  if (!is_run(parent)) return;
  Run& above = (*this)[parent];
  run.next_sibling = above.first_child;
  if (is_run(run.next_sibling)) (*this)[run.next_sibling].previous_sibling = child;
  above.first_child = child;
  ++above.children;
}

void PrefixRuns::unlink(std::uint32_t child) {
  Run& run = (*this)[child];
  if (is_run(run.parent)) {
    Run& above = (*this)[run.parent];
    if (above.first_child == child) above.first_child = run.next_sibling;
    --above.children;
  }
  if (is_run(run.previous_sibling)) (*this)[run.previous_sibling].next_sibling = run.next_sibling;
  if (is_run(run.next_sibling)) (*this)[run.next_sibling].previous_sibling = run.previous_sibling;
  run.parent = kUnknown;
  run.previous_sibling = kNone;
  run.next_sibling = kNone;
}

void PrefixRuns::take_place(std::uint32_t run, std::uint32_t heir) {
  const std::uint32_t parent = (*this)[run].parent;
  unlink(run);
  link(parent, heir);
}

void PrefixRuns::take_children(std::uint32_t number, std::uint32_t heir) {
  Run& run = (*this)[number];
  Run& taking = (*this)[heir];
  taking.first_child = run.first_child;
  taking.children = run.children;
  for (std::uint32_t child = taking.first_child; is_run(child);) {
    (*this)[child].parent = heir;
    child = (*this)[child].next_sibling;
  }
  run.first_child = kNone;
  run.children = 0;
}

std::size_t PrefixRuns::memory_bytes() const {
  return pages_.size() * kPage * sizeof(Run) + block_bytes_;
}

}  // namespace nearkv
