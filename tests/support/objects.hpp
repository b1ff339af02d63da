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

}  // namespace nearkv::test
