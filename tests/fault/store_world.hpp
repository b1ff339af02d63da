// A small object store under random work, and what it must still hold whatever happens to it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nearkv/object_store.hpp"
#include "persist/persistence.hpp"
#include "support/objects.hpp"

namespace nearkv::test {

inline constexpr std::size_t kWorldBytes = 3 << 20;
inline constexpr std::uint32_t kWorldSpaces = 2;  ///< Namespaces, of two tenants.
inline constexpr std::uint64_t kWorldKeys = 20;   ///< In each.

/// Seeds of the contents under each (namespace, key).
using Held = std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint64_t>;

/// Formats memory and opens a store with its namespaces in it.
std::unique_ptr<ObjectStore> create_world(std::span<std::byte> memory,
                                          std::unique_ptr<Persistence> persistence);

/// Opens a store over what is there; nullptr with a reason if it is none.
std::unique_ptr<ObjectStore> open_world(
    std::span<std::byte> memory, std::string* reason,
    std::unique_ptr<Persistence> persistence = Persistence::make(Durability::kProcess));

/// One piece of random work.
struct Step {
  enum class Kind : std::uint8_t { kSet, kChain, kOverwrite, kErase, kDefragment };
  Kind kind = Kind::kSet;
  std::uint32_t space = 0;
  std::uint16_t parts = 0;
  std::size_t count = 0;  ///< Of keys.
  std::array<std::uint64_t, 4> keys{};
  std::array<std::uint64_t, 4> seeds{};
};

/// Its keys differ.
Step random_step(Random& random);

/// What a step did, as far as it cannot be told from the state before and after it.
struct Done {
  Step step;
  bool evicted = false;  ///< To make room; what went may have come back in the same step.
};

Done run_step(ObjectStore* store, const Step& step);

/// What the store holds. An object whose bytes are none that were ever stored under its key gives
/// `wrong` a text.
Held look(ObjectStore* store, std::string* wrong);

/// Whether what was found after a crash is, object by object, what was there before or after the
/// step in which it happened (`done`, if there was one); if not, what is wrong.
std::optional<std::string> compare(const Held& found, const Held& before, const Held& after,
                                   const Done* done = nullptr);

}  // namespace nearkv::test
