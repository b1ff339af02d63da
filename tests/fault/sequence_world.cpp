#include "fault/sequence_world.hpp"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>

#include "device/cpu_device.hpp"
#include "fault/cold_answers.hpp"
#include "pool/pool_access.hpp"
#include "support/objects.hpp"

namespace nearkv::test {
namespace {

constexpr std::size_t kAlignment = 4096;
constexpr std::uint32_t kMostPages = 3;  ///< Of a layer, so that there is always room to warm it.
constexpr std::uint32_t kSeeds = 1U << 21;

/// Passes on to a persistence that somebody else owns.
class Shared final : public Persistence {
 public:
  explicit Shared(Persistence* target) : target_(target) {}
  void write_back(std::span<const std::byte> bytes) noexcept override {
    target_->write_back(bytes);
  }
  void streamed(std::span<const std::byte> bytes) noexcept override { target_->streamed(bytes); }
  void fence() noexcept override { target_->fence(); }

 private:
  Persistence* target_;
};

std::unique_ptr<Persistence> share(Persistence* persistence) {
  if (persistence == nullptr) return Persistence::make(Durability::kProcess);
  return std::make_unique<Shared>(persistence);
}

PoolPlan make_plan() {
  PoolPlan plan;
  std::string reason;
  if (PoolPlan::make(kPoolBytes, pool_options(), &plan, &reason) != Status::kOk) {
    throw std::runtime_error(reason);
  }
  return plan;
}

std::unique_ptr<Pool> open_on_device(std::span<std::byte> memory, Persistence* persistence,
                                     std::shared_ptr<PoolMemory> pool_memory, std::string* reason) {
  Workers::Options workers;
  workers.threads = 1;
  auto device = std::make_shared<CpuDevice>(
      CpuDevice::Backing{memory, nullptr, share(persistence), Durability::kPower}, workers);
  std::unique_ptr<Pool> pool;
  if (PoolAccess::open(std::move(device), pool_options(), make_plan(), std::move(pool_memory),
                       &pool, reason) != Status::kOk) {
    return nullptr;
  }
  return pool;
}

std::uint32_t seed_of(const PageRows& keys) {
  std::uint32_t seed = 0;
  for (std::uint32_t i = 0; i < 3; ++i) seed |= (keys[i] & 0x7FU) << (7 * i);
  return seed;
}

Status append_pages(Pool* pool, const SequenceStep& step) {
  // Token-major over the heads, as an engine has them.
  const std::size_t token_count = std::size_t{step.pages} * NKV_PAGE_TOKENS;
  std::array<PageRows, 2> rows;
  for (std::size_t tensor = 0; tensor < rows.size(); ++tensor) {
    rows[tensor].resize(token_count * kPoolHeads * kPoolDim);
    for (std::uint32_t page = 0; page < step.pages; ++page) {
      for (std::uint16_t head = 0; head < kPoolHeads; ++head) {
        const PageRows part = page_rows((step.seed + page) % kSeeds, step.layer, head, tensor == 0);
        for (std::size_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
          std::copy_n(
              &part[token * kPoolDim], kPoolDim,
              &rows[tensor][((page * NKV_PAGE_TOKENS + token) * kPoolHeads + head) * kPoolDim]);
        }
      }
    }
  }
  const auto host = [](const PageRows& data) {
    return HostRows{reinterpret_cast<const std::byte*>(data.data()),
                    kPoolHeads * kPoolDim * sizeof(data[0]), kPoolDim * sizeof(data[0])};
  };
  return pool->append(step.sequence, step.layer, host(rows[0]), host(rows[1]),
                      static_cast<std::uint32_t>(token_count));
}

Status transcode_pages(Pool* pool, const SequenceStep& step) {
  std::vector<std::uint32_t> pages;
  for (std::uint32_t page = 0; page < kMostPages; ++page) {
    if ((step.chosen >> page & 1) != 0) pages.push_back(page);
  }
  std::uint32_t moved = 0;
  return pool->transcode(step.sequence, step.layer, step.kv_head, pages, step.codec, &moved);
}

}  // namespace

PoolMemoryBytes::PoolMemoryBytes(std::size_t bytes)
    : PoolMemoryBytes(std::vector<std::byte>(bytes)) {}

PoolMemoryBytes::PoolMemoryBytes(std::span<const std::byte> image)
    : first_(new(std::align_val_t{kAlignment}) std::byte[image.size()],
             [](std::byte* first) { ::operator delete[](first, std::align_val_t{kAlignment}); }),
      size_(image.size()) {
  std::ranges::copy(image, first_.get());
}

void keep_heap() {
  ::mallopt(M_MMAP_THRESHOLD, 2 * kPoolBytes);
  ::mallopt(M_TRIM_THRESHOLD, 32 * kPoolBytes);
}

Pool::Options pool_options() {
  Pool::Options options;
  options.shape.layers = kPoolLayers;
  options.shape.kv_heads = kPoolHeads;
  options.shape.head_dim = options.shape.value_dim = kPoolDim;
  options.max_sequences = kSequences;
  return options;
}

std::unique_ptr<Pool> create_pool(std::span<std::byte> memory, Persistences persistences) {
  std::shared_ptr<PoolMemory> pool_memory;
  std::string reason = "the pool was not created";
  std::unique_ptr<Pool> pool;
  if (PoolMemory::create({memory, nullptr, share(persistences.host)}, make_plan(), &pool_memory) ==
      Status::kOk) {
    pool = open_on_device(memory, persistences.device, std::move(pool_memory), &reason);
  }
  if (pool == nullptr) throw std::runtime_error(reason);
  return pool;
}

std::unique_ptr<Pool> open_pool(std::span<std::byte> memory, Persistences persistences,
                                std::string* reason) {
  std::shared_ptr<PoolMemory> pool_memory;
  PoolMemory::Source source{memory, nullptr, share(persistences.host)};
  if (PoolMemory::open(std::move(source), make_plan(), &pool_memory, reason) != Status::kOk) {
    return nullptr;
  }
  return open_on_device(memory, persistences.device, std::move(pool_memory), reason);
}

PageRows page_rows(std::uint32_t seed, std::uint16_t layer, std::uint16_t head, bool keys) {
  PageRows rows(NKV_PAGE_TOKENS * kPoolDim);
  const Bytes bytes = contents((std::uint64_t{seed} << 8) + layer * 4U + head * 2U + (keys ? 1 : 0),
                               rows.size() * sizeof(rows[0]));
  std::memcpy(rows.data(), bytes.data(), bytes.size());
  for (std::uint16_t& element : rows) {
    const auto exponent = static_cast<std::uint16_t>(118 + (element >> 7) % 8);
    element = static_cast<std::uint16_t>((element & 0x807F) | exponent << 7);
  }
  if (seed % 4 == 3) {
    for (std::size_t i = 0; i < 2 * NKV_EXCEPTIONS; ++i) rows[kPoolDim + 7 * i] = 0x1000;
  }
  if (keys) {  // The first three mantissas are the seed.
    for (std::uint32_t i = 0; i < 3; ++i) {
      rows[i] = static_cast<std::uint16_t>(124 << 7 | ((seed >> (7 * i)) & 0x7F));
    }
  }
  return rows;
}

SequenceStep random_step(const Sequences& sequences, Random& random) {
  SequenceStep step;
  step.sequence = pick(random, 1, kSequences);
  const auto found = sequences.find(step.sequence);
  if (found == sequences.end()) {
    step.parent = pick(random, 1, kSequences);
    const auto parent = sequences.find(step.parent);
    if (random() % 4 != 0 && parent != sequences.end()) {
      step.kind = SequenceStep::Kind::kFork;
      const std::size_t pages = std::min(parent->second[0].size(), parent->second[1].size());
      step.pages = pick(random, 0, static_cast<std::uint32_t>(pages));
    }
    return step;
  }
  step.layer = static_cast<std::uint16_t>(pick(random, 0, kPoolLayers - 1));
  const auto pages = static_cast<std::uint32_t>(found->second[step.layer].size());
  const std::uint32_t dice = pick(random, 0, 7);
  if (dice == 0) {
    step.kind = SequenceStep::Kind::kDrop;
  } else if (dice == 1 || pages == kMostPages) {
    constexpr std::array kKinds = {SequenceStep::Kind::kTranscode,
                                   SequenceStep::Kind::kTranscodePages, SequenceStep::Kind::kQuery};
    step.kind = kKinds[random() % kKinds.size()];
    step.codec = random() % 2 == 0 ? NKV_CODEC_NONE : NKV_CODEC_PLANES_LZ4;
    step.kv_head = static_cast<std::uint16_t>(pick(random, 0, kPoolHeads - 1));
    step.chosen = pick(random, 0, (1U << pages) - 1);
  } else {
    step.kind = SequenceStep::Kind::kAppend;
    step.pages = pick(random, 1, kMostPages - pages);
    step.seed = pick(random, 0, kSeeds - 1);
  }
  return step;
}

Status run_step(Pool* pool, const SequenceStep& step) {
  const auto run = [&] {
    switch (step.kind) {
      case SequenceStep::Kind::kCreate:
        return pool->create_sequence(step.sequence);
      case SequenceStep::Kind::kAppend:
        return append_pages(pool, step);
      case SequenceStep::Kind::kFork:
        return pool->fork(step.parent, step.sequence, step.pages * NKV_PAGE_TOKENS);
      case SequenceStep::Kind::kDrop:
        return pool->drop(step.sequence);
      case SequenceStep::Kind::kTranscode:
        return pool->transcode(step.sequence, step.codec);
      case SequenceStep::Kind::kTranscodePages:
        return transcode_pages(pool, step);
      default:
        return query_decoded(pool, step.sequence, step.layer, step.kv_head);
    }
  };
  const Status status = run();
  EXPECT_TRUE(status == Status::kOk || status == Status::kExists || status == Status::kPoolFull)
      << pool->last_error();
  return status;
}

void record(const SequenceStep& step, Sequences* sequences) {
  switch (step.kind) {
    case SequenceStep::Kind::kCreate:
      (*sequences)[step.sequence] = {};
      break;
    case SequenceStep::Kind::kAppend:
      for (std::uint32_t page = 0; page < step.pages; ++page) {
        sequences->at(step.sequence)[step.layer].push_back((step.seed + page) % kSeeds);
      }
      break;
    case SequenceStep::Kind::kFork: {
      auto shared = sequences->at(step.parent);
      for (auto& pages : shared) pages.resize(step.pages);
      (*sequences)[step.sequence] = std::move(shared);
      break;
    }
    case SequenceStep::Kind::kDrop:
      sequences->erase(step.sequence);
      break;
    default:
      break;
  }
}

std::optional<std::uint32_t> read_page(Pool* pool, std::uint64_t sequence, std::uint16_t layer,
                                       std::uint32_t page, std::string* wrong) {
  std::optional<std::uint32_t> seed;
  for (std::uint16_t head = 0; head < kPoolHeads; ++head) {
    PageRows keys(NKV_PAGE_TOKENS * kPoolDim);
    PageRows values(keys.size());
    const Status status = pool->read(sequence, layer, head, page * NKV_PAGE_TOKENS, NKV_PAGE_TOKENS,
                                     std::as_writable_bytes(std::span(keys)),
                                     std::as_writable_bytes(std::span(values)));
    if (status != Status::kOk) return std::nullopt;
    if (!seed) seed = seed_of(keys);
    if (keys != page_rows(*seed, layer, head, true) ||
        values != page_rows(*seed, layer, head, false)) {
      *wrong = "sequence " + std::to_string(sequence) + ", layer " + std::to_string(layer) +
               ", head " + std::to_string(head) + ", page " + std::to_string(page) +
               ": rows that nobody appended";
      return std::nullopt;
    }
  }
  return seed;
}

Sequences look(Pool* pool, std::string* wrong, std::uint64_t* cold_answers) {
  Sequences found;
  for (std::uint64_t id = 1; id <= kSequences; ++id) {
    std::uint32_t tokens = 0;
    if (pool->tokens(id, 0, &tokens) != Status::kOk) continue;
    std::vector<ColdAnswer> answers;
    for (std::uint16_t layer = 0; layer < kPoolLayers; ++layer) {
      const auto head = static_cast<std::uint16_t>((id + layer) % kPoolHeads);
      auto answer = ask_cold(pool, id, layer, head);
      if (!answer) continue;
      const bool both_are_ok =
          answer->decoded.status == Status::kOk && answer->skipped.status == Status::kOk;
      if (!both_are_ok) *wrong = "a query failed: " + pool->last_error();
      answers.push_back(std::move(*answer));
    }
    if (cold_answers != nullptr) *cold_answers += answers.size();
    if (pool->transcode(id, NKV_CODEC_NONE) != Status::kOk) *wrong = pool->last_error();
    auto& layers = found[id];
    for (std::uint16_t layer = 0; layer < kPoolLayers; ++layer) {
      if (pool->tokens(id, layer, &tokens) != Status::kOk) *wrong = "a layer is missing";
      for (std::uint32_t page = 0; page < tokens / NKV_PAGE_TOKENS; ++page) {
        const std::optional<std::uint32_t> seed = read_page(pool, id, layer, page, wrong);
        if (!seed && wrong->empty()) *wrong = "a page cannot be read: " + pool->last_error();
        layers[layer].push_back(seed.value_or(0));
      }
    }
    for (const ColdAnswer& answer : answers) {
      if (const auto failure = judge_answer(answer, layers[answer.layer])) *wrong = *failure;
    }
  }
  return found;
}

std::optional<std::string> compare(const Sequences& found, const Sequences& before,
                                   const Sequences& after, const SequenceStep* step) {
  const auto in = [](const Sequences& sequences, std::uint64_t id) {
    const auto place = sequences.find(id);
    return place == sequences.end() ? std::nullopt : std::optional(place->second);
  };
  for (std::uint64_t id = 1; id <= kSequences; ++id) {
    const auto now = in(found, id);
    const auto was = in(before, id);
    const auto becomes = in(after, id);
    if (now == was || now == becomes) continue;
    if (now && was && becomes && step != nullptr && step->sequence == id &&
        step->kind == SequenceStep::Kind::kAppend) {
      auto some = *becomes;
      std::vector<std::uint32_t>& pages = some[step->layer];
      const std::size_t present = (*now)[step->layer].size();
      if (present >= (*was)[step->layer].size() && present <= pages.size()) pages.resize(present);
      if (*now == some) continue;
    }
    std::string what = "sequence " + std::to_string(id);
    if (!now) return what + " was lost";
    if (!was && !becomes) return what + " came back";
    for (std::uint16_t layer = 0; layer < kPoolLayers; ++layer) {
      what +=
          ", " + std::to_string((*now)[layer].size()) + " pages in layer " + std::to_string(layer);
    }
    return what + ": neither as before nor as after";
  }
  return std::nullopt;
}

}  // namespace nearkv::test
