#include "fault/store_world.hpp"

#include <algorithm>
#include <cstring>

#include "object/local_store.hpp"
#include "pool/pool_memory.hpp"

namespace nearkv::test {
namespace {

// Sizes from one grain to many, so that a few dozen objects fill the store.
constexpr std::uint32_t kMostBytes = 160 << 10;

/// The seed comes first, then what follows from it: an object tells what it should be.
Bytes seeded(std::uint64_t seed) {
  const std::size_t bytes = 8 + seed * 2654435761 % kMostBytes;
  Bytes data = contents(seed, bytes);
  std::memcpy(data.data(), &seed, sizeof(seed));
  return data;
}

/// Seeds tell the key that they were made for.
std::uint64_t seed_for(std::uint64_t key, Random& random) {
  return (random() % 1000000) * kWorldKeys + key;
}

std::unique_ptr<ObjectStore> open_store(std::shared_ptr<PoolMemory> pool) {
  std::unique_ptr<ObjectStore> store;
  std::string reason;
  ObjectStore::Options options;
  options.defragment_above = 0;  // What happens when is the test's alone.
  if (LocalStore::open(std::move(pool), options, &store, &reason) != Status::kOk) {
    throw std::runtime_error(reason);
  }
  for (std::uint32_t space = 0; space < kWorldSpaces; ++space) {
    Namespace name;
    name.tenant = static_cast<std::uint16_t>(space);
    name.model = "model";
    std::uint32_t number = 0;
    if (store->open_namespace(name, &number) != Status::kOk || number != space) {
      throw std::runtime_error("namespaces have other numbers than before");
    }
  }
  return store;
}

}  // namespace

std::unique_ptr<ObjectStore> create_world(std::span<std::byte> memory,
                                          std::unique_ptr<Persistence> persistence) {
  Pool::Options options;
  options.shape.layers = 0;
  options.max_objects = 64;
  options.max_namespaces = 4;
  PoolPlan plan;
  std::string reason;
  if (PoolPlan::make(memory.size(), options, &plan, &reason) != Status::kOk) {
    throw std::runtime_error(reason);
  }
  std::shared_ptr<PoolMemory> pool;
  if (PoolMemory::create({memory, nullptr, std::move(persistence)}, plan, &pool) != Status::kOk) {
    throw std::runtime_error("the pool was not created");
  }
  return open_store(std::move(pool));
}

std::unique_ptr<ObjectStore> open_world(std::span<std::byte> memory, std::string* reason,
                                        std::unique_ptr<Persistence> persistence) {
  std::shared_ptr<PoolMemory> pool;
  PoolMemory::Source source{memory, nullptr, std::move(persistence)};
  if (PoolMemory::open(std::move(source), &pool, reason) != Status::kOk) return nullptr;
  return open_store(std::move(pool));
}

Step random_step(Random& random) {
  Step step;
  const std::uint32_t dice = pick(random, 0, 15);
  step.kind = dice < 7    ? Step::Kind::kSet
              : dice < 10 ? Step::Kind::kChain
              : dice < 12 ? Step::Kind::kOverwrite
              : dice < 15 ? Step::Kind::kErase
                          : Step::Kind::kDefragment;
  step.space = pick(random, 0, kWorldSpaces - 1);
  step.parts = static_cast<std::uint16_t>(pick(random, 0, 2) * 2);
  step.count = pick(random, 1, static_cast<std::uint32_t>(step.keys.size()));
  const std::uint64_t first = random() % kWorldKeys;
  for (std::size_t i = 0; i < step.count; ++i) {
    step.keys[i] = (first + i * 3) % kWorldKeys;
    step.seeds[i] = seed_for(step.keys[i], random);
  }
  return step;
}

Done run_step(ObjectStore* store, const Step& step) {
  if (step.kind == Step::Kind::kDefragment) {
    std::uint64_t moved_bytes = 0;
    EXPECT_EQ(store->defragment(1 << 20, &moved_bytes), Status::kOk);
    return {step, false};
  }
  const std::uint64_t evictions = store->stats().evictions;
  std::array<Bytes, 4> keys;
  std::array<Bytes, 4> data;
  std::array<std::span<const std::byte>, 4> sources;
  std::array<ObjectItem, 4> items;
  for (std::size_t i = 0; i < step.count; ++i) {
    keys[i] = key_of(step.keys[i]);
    data[i] = seeded(step.seeds[i]);
    sources[i] = data[i];
    items[i].key = keys[i];
    items[i].source = std::span(&sources[i], 1);
  }
  Job job;
  job.kind = step.kind == Step::Kind::kErase ? JobKind::kErase : JobKind::kSet;
  job.namespace_number = step.space;
  job.items = std::span(items).first(step.count);
  if (job.kind == JobKind::kSet) {
    job.chain = step.kind == Step::Kind::kChain;
    job.overwrite = step.kind == Step::Kind::kOverwrite;
    job.parts = step.parts;
  }
  JobResult result;
  EXPECT_EQ(store->run(job, &result), Status::kOk);
  for (const Status status : result.items) {
    EXPECT_TRUE(status == Status::kOk ||
                (job.kind == JobKind::kErase && status == Status::kNotFound))
        << message(status);
  }
  return {step, store->stats().evictions != evictions};
}

Held look(ObjectStore* store, std::string* wrong) {
  Held held;
  for (std::uint32_t space = 0; space < kWorldSpaces; ++space) {
    for (std::uint64_t key = 0; key < kWorldKeys; ++key) {
      Bytes found;
      const Status status = get(store, space, key_of(key), &found, kMostBytes + 8);
      if (status == Status::kNotFound) continue;
      std::uint64_t seed = 0;
      if (found.size() >= sizeof(seed)) std::memcpy(&seed, found.data(), sizeof(seed));
      if (status != Status::kOk || seed % kWorldKeys != key || found != seeded(seed)) {
        *wrong = "key " + std::to_string(key) + " of namespace " + std::to_string(space) + ": " +
                 (status != Status::kOk ? std::string(message(status))
                                        : "bytes that nobody stored under it");
      }
      held[{space, key}] = seed;
    }
  }
  return held;
}

std::optional<std::string> compare(const Held& found, const Held& before, const Held& after,
                                   const Done* done) {
  const auto may_be_gone = [&](std::uint32_t space, std::uint64_t key) {
    return done != nullptr && done->evicted && done->step.space == space &&
           std::ranges::find(done->step.keys, key) != done->step.keys.end();
  };
  const auto seed_in = [](const Held& held, const Held::key_type& key) {
    const auto place = held.find(key);
    return place == held.end() ? std::nullopt : std::optional(place->second);
  };
  for (std::uint32_t space = 0; space < kWorldSpaces; ++space) {
    for (std::uint64_t key = 0; key < kWorldKeys; ++key) {
      const Held::key_type name{space, key};
      const auto now = seed_in(found, name);
      if (now == seed_in(before, name) || now == seed_in(after, name)) continue;
      if (!now && may_be_gone(space, key)) continue;
      return "key " + std::to_string(key) + " of namespace " + std::to_string(space) +
             (now ? " holds something else" : " was lost");
    }
  }
  return std::nullopt;
}

}  // namespace nearkv::test
