// Objects for tests: keys, contents that follow from a seed, and jobs in one call.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "nearkv/object_store.hpp"
#include "support/seed.hpp"

namespace nearkv::test {

using Bytes = std::vector<std::byte>;

/// The bytes of a text.
inline Bytes bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// A key like an engine's: 32 bytes that follow from a number.
inline Bytes key_of(std::uint64_t number) {
  Random random(number * 7919 + 1);
  Bytes key(32);
  for (std::byte& byte : key) byte = static_cast<std::byte>(random());
  return key;
}

/// Contents that follow from a seed.
inline Bytes contents(std::uint64_t seed, std::size_t bytes) {
  Bytes data(bytes);
  std::uint64_t state = seed * 0x9E3779B97F4A7C15 + 1;
  for (std::size_t at = 0; at < bytes; at += sizeof(state)) {
    state = state * 6364136223846793005 + 1442695040888963407;
    const std::uint64_t word = state ^ (state >> 29);
    std::memcpy(&data[at], &word, std::min(sizeof(word), bytes - at));
  }
  return data;
}

/// Runs a job of one item; `bytes`: what it says of the object's size.
inline Status run_one(ObjectStore* store, std::uint32_t space, const ObjectItem& item, Job job,
                      std::uint32_t* bytes = nullptr) {
  job.namespace_number = space;
  job.items = std::span(&item, 1);
  JobResult result;
  const Status status = store->run(job, &result);
  if (status != Status::kOk) return status;
  if (bytes != nullptr) *bytes = result.object_bytes[0];
  return result.items[0];
}

/// Sets one object; options as in Job.
inline Status set(ObjectStore* store, std::uint32_t space, const Bytes& key,
                  std::span<const std::byte> data, Job job = {}) {
  ObjectItem item;
  item.key = key;
  item.source = std::span(&data, 1);
  job.kind = JobKind::kSet;
  return run_one(store, space, item, job);
}

/// Begins a job of one item.
inline Status submit_one(ObjectStore* store, std::uint32_t space, const ObjectItem& item,
                         JobKind kind, JobId* id) {
  Job job;
  job.kind = kind;
  job.namespace_number = space;
  job.items = std::span(&item, 1);
  return store->submit(job, id);
}

/// Begins to set one object, whose bytes stay where they are until the job is over.
inline Status submit_set(ObjectStore* store, std::uint32_t space, const Bytes& key,
                         std::span<const std::byte> data, JobId* id) {
  ObjectItem item;
  item.key = key;
  item.source = std::span(&data, 1);
  return submit_one(store, space, item, JobKind::kSet, id);
}

/// Begins to get one object into memory that stays where it is until the job is over.
inline Status submit_get(ObjectStore* store, std::uint32_t space, const Bytes& key,
                         std::span<std::byte> target, JobId* id) {
  ObjectItem item;
  item.key = key;
  item.target = std::span(&target, 1);
  return submit_one(store, space, item, JobKind::kGet, id);
}

/// Sets parts [first, first + count) of an object of `parts`.
inline Status set_parts(ObjectStore* store, std::uint32_t space, const Bytes& key,
                        const Bytes& data, std::uint16_t parts, std::uint16_t first,
                        std::uint16_t count) {
  const std::size_t part_bytes = (data.size() + parts - 1) / parts;
  const std::size_t begin = first * part_bytes;
  const std::size_t end = std::min<std::size_t>((first + count) * part_bytes, data.size());
  const std::span<const std::byte> source = std::span(data).subspan(begin, end - begin);
  ObjectItem item;
  item.key = key;
  item.source = std::span(&source, 1);
  item.first_part = first;
  item.part_count = count;
  Job job;
  job.kind = JobKind::kSetParts;
  job.parts = parts;
  job.object_bytes = static_cast<std::uint32_t>(data.size());
  return run_one(store, space, item, job);
}

/// Gets one object of at most `room` bytes.
inline Status get(ObjectStore* store, std::uint32_t space, const Bytes& key, Bytes* data,
                  std::size_t room = 1 << 20, std::uint16_t first_part = 0,
                  std::uint16_t part_count = 0) {
  data->resize(room);
  const std::span<std::byte> target(*data);
  ObjectItem item;
  item.key = key;
  item.target = std::span(&target, 1);
  item.first_part = first_part;
  item.part_count = part_count;
  auto bytes = static_cast<std::uint32_t>(room);
  const Status status = run_one(store, space, item, {}, &bytes);
  data->resize(bytes);
  return status;
}

inline Status erase(ObjectStore* store, std::uint32_t space, const Bytes& key) {
  ObjectItem item;
  item.key = key;
  Job job;
  job.kind = JobKind::kErase;
  return run_one(store, space, item, job);
}

inline bool exists(ObjectStore* store, std::uint32_t space, const Bytes& key) {
  const Key keys[] = {key};
  return store->exists(space, keys) == 1;
}

/// Objects `first` to `first + count`, for calls that take many.
struct Batch {
  explicit Batch(std::size_t count, std::uint64_t first = 0)
      : sources(count), targets(count), items(count) {
    for (std::size_t i = 0; i < count; ++i) names.push_back(key_of(first + i));
    keys.assign(names.begin(), names.end());
    for (std::size_t i = 0; i < count; ++i) items[i].key = keys[i];
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  /// A job that sets them all to `data`.
  Job set_to(std::uint32_t space, std::span<const std::byte> data) {
    sources.assign(items.size(), data);
    Job job;
    job.kind = JobKind::kSet;
    job.namespace_number = space;
    job.items = items;
    for (std::size_t i = 0; i < items.size(); ++i) {
      items[i].source = std::span(&sources[i], 1);
      items[i].target = {};
    }
    return job;
  }

  /// A job that sets each to its place of `data`.
  Job set_to(std::uint32_t space, std::span<const Bytes> data) {
    const Job job = set_to(space, Key());
    std::ranges::copy(data, sources.begin());
    return job;
  }

  /// A job that gets each into its place of `found`.
  Job get_into(std::uint32_t space, std::span<Bytes> found) {
    std::ranges::copy(found, targets.begin());
    Job job;
    job.namespace_number = space;
    job.items = items;
    for (std::size_t i = 0; i < items.size(); ++i) {
      items[i].source = {};
      items[i].target = std::span(&targets[i], 1);
    }
    return job;
  }

  std::vector<Bytes> names;
  std::vector<Key> keys;
  std::vector<std::span<const std::byte>> sources;
  std::vector<std::span<std::byte>> targets;
  std::vector<ObjectItem> items;
};

/// The contents of objects `first` to `first + count`, of as many bytes each.
inline std::vector<Bytes> contents_of(std::size_t count, std::size_t bytes,
                                      std::uint64_t first = 0) {
  std::vector<Bytes> data;
  for (std::size_t i = 0; i < count; ++i) data.push_back(contents(first + i, bytes));
  return data;
}

/// Sets objects one after the other, each as the child of the one before it.
inline void set_chain(ObjectStore* store, std::uint32_t space, const Batch& chain,
                      std::size_t bytes) {
  Job job;
  job.chain = true;
  for (std::size_t i = 0; i < chain.names.size(); ++i) {
    ASSERT_EQ(set(store, space, chain.names[i], contents(i, bytes), job), Status::kOk) << i;
    job.parent = chain.keys[i];
  }
}

}  // namespace nearkv::test
