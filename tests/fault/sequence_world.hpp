// A small pool of sequences under random work, and what it must still hold whatever happens to it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nearkv/pool.hpp"
#include "persist/persistence.hpp"
#include "support/seed.hpp"

namespace nearkv::test {

inline constexpr std::size_t kPoolBytes = 8 << 20;
inline constexpr std::uint16_t kPoolLayers = 2;
inline constexpr std::uint16_t kPoolHeads = 2;
inline constexpr std::uint16_t kPoolDim = 128;
inline constexpr std::uint64_t kSequences = 5;  ///< Numbered from 1.

/// Memory that is aligned as a mapping is.
class PoolMemoryBytes {
 public:
  explicit PoolMemoryBytes(std::size_t bytes = kPoolBytes);
  explicit PoolMemoryBytes(std::span<const std::byte> image);

  [[nodiscard]] std::span<std::byte> bytes() const { return {first_.get(), size_}; }

 private:
  std::shared_ptr<std::byte> first_;
  std::size_t size_;
};

/// For tests in which such memory comes and goes by the thousand: the heap keeps it from now on.
void keep_heap();

/// How stores become durable that the host makes, and those of the device. Both must outlive the
/// pool. nullptr: as in memory that outlives the process.
struct Persistences {
  Persistence* host = nullptr;
  Persistence* device = nullptr;
};

/// What every such pool is made with.
Pool::Options pool_options();

/// Formats memory, of kPoolBytes, and opens a pool of sequences on a `cpu:` device over it.
std::unique_ptr<Pool> create_pool(std::span<std::byte> memory, Persistences persistences);

/// Opens the pool that is there; nullptr with a reason if there is none.
std::unique_ptr<Pool> open_pool(std::span<std::byte> memory, Persistences persistences,
                                std::string* reason);

/// Seeds of the pages of each layer, by sequence.
using Sequences = std::map<std::uint64_t, std::array<std::vector<std::uint32_t>, kPoolLayers>>;

/// One piece of random work.
struct SequenceStep {
  enum class Kind : std::uint8_t {
    kCreate,
    kAppend,
    kFork,
    kDrop,
    kTranscode,
    kTranscodePages,
    kQuery,  ///< Dense, with compressed pages decoded.
  };
  Kind kind = Kind::kCreate;
  std::uint8_t codec = 0;  ///< kTranscode, kTranscodePages.
  std::uint16_t layer = 0;
  std::uint16_t kv_head = 0;  ///< kTranscodePages, kQuery.
  std::uint32_t chosen = 0;   ///< kTranscodePages: bit n stands for page n.
  std::uint32_t pages = 0;    ///< kAppend: new ones; kFork: shared ones.
  std::uint32_t seed = 0;     ///< kAppend: of the first page; those of the next follow.
  std::uint64_t sequence = 0;
  std::uint64_t parent = 0;
};

using PageRows = std::vector<std::uint16_t>;  ///< bf16 [PAGE_TOKENS][kPoolDim].

/// Rows of one tensor of one page, which follow from the page's seed. Every fourth page has
/// elements too small for the compact row form.
PageRows page_rows(std::uint32_t seed, std::uint16_t layer, std::uint16_t head, bool keys);

SequenceStep random_step(const Sequences& sequences, Random& random);

/// kOk, or why the step was refused without effect: kExists (the number of a dropped sequence whose
/// pages are shared), kPoolFull. Anything else fails the test.
Status run_step(Pool* pool, const SequenceStep& step);

/// What a step that was done has changed.
void record(const SequenceStep& step, Sequences* sequences);

/// What the pool holds; warms compressed sequences, which it first queries as they are
/// (`cold_answers`, if wanted, counts these). Rows that were never appended as they are, and
/// answers that do not follow from them, give `wrong` a text.
Sequences look(Pool* pool, std::string* wrong, std::uint64_t* cold_answers = nullptr);

/// Seed of a page as it is read, nothing if it cannot be, or if its rows are none that were ever
/// appended, which gives `wrong` a text.
std::optional<std::uint32_t> read_page(Pool* pool, std::uint64_t sequence, std::uint16_t layer,
                                       std::uint32_t page, std::string* wrong);

/// Whether what was found after a crash is, sequence by sequence, what was there before or after
/// the step in which it happened (`step`, if there was one); of an append, its first pages may be
/// there. If not, what is wrong.
std::optional<std::string> compare(const Sequences& found, const Sequences& before,
                                   const Sequences& after, const SequenceStep* step = nullptr);

}  // namespace nearkv::test
