#include <algorithm>
#include <array>

#include "policy/ghost_list.hpp"
#include "policy/listed_policy.hpp"
#include "policy/policies.hpp"
#include "policy/reuse_density.hpp"

namespace nearkv {
namespace {

constexpr std::uint64_t kGhostCapacities = 4;

// A parent used this often is shared by many chains, like a system prompt: what follows it opens a
// chain of its own rather than extends one.
constexpr std::uint8_t kHubUses = 8;

/// An object is of one of four classes, each a list. Of the oldest of each list, the one that
/// promises least leaves. In conversations the last block of a prompt is hardly ever seen again,
/// blocks that extend a known chain less often than those that opened one, and what was seen twice
/// far more often than either; how much, and until what age, is learned.
class ChainLhd final : public ListedPolicy {
 public:
  explicit ChainLhd(std::uint64_t capacity_bytes)
      : ListedPolicy(kClasses),
        density_(kClasses, capacity_bytes),
        ghost_bytes_(kGhostCapacities * capacity_bytes) {}

 private:
  enum Class : std::uint8_t { kLast, kOpening, kExtension, kReused, kClasses };
  static constexpr std::uint8_t kMostUses = 0xff;

  void on_insert(ObjectId id) override {
    density_.advance(clock());
    Object& fresh = object(id);
    if (const auto ghost = ghosts_.take(fresh.fingerprint)) {
      density_.reused(ghost->list, ghost->placed_at, ghost->bytes);
      fresh.uses = ghost->uses;
    }
    count_use(&fresh);
    fresh.traits = kOpening;
    if (fresh.parent != kNoObject) {
      const Object& parent = object(fresh.parent);
      if (parent.uses == 1) fresh.traits = parent.traits;
      if (parent.uses > 1 && parent.uses < kHubUses) fresh.traits = kExtension;
      if (parent.list == kLast) {
        density_.withdrawn(kLast, parent.placed_at, parent.bytes);
        enter(fresh.parent, static_cast<Class>(parent.traits));
      }
    }
    enter(id, fresh.uses > 1 ? kReused : kLast);
  }

  void on_hit(ObjectId id) override {
    density_.advance(clock());
    Object& used = object(id);
    density_.reused(used.list, used.placed_at, used.bytes);
    count_use(&used);
    enter(id, kReused);
  }

  void on_erase(const Object& gone, Removal removal) override {
    if (removal == Removal::kDeleted) {
      density_.withdrawn(gone.list, gone.placed_at, gone.bytes);
      return;
    }
    give_up(ghosts_.add({gone.fingerprint, gone.placed_at, gone.bytes, gone.list, gone.uses}));
    while (ghosts_.bytes() > ghost_bytes_) give_up(ghosts_.take_oldest());
  }

  ObjectId candidate() override {
    ObjectId least = kNoObject;
    double least_density = 0;
    for (std::uint8_t each = 0; each < kClasses; ++each) {
      const ObjectId id = oldest(each);
      if (id == kNoObject) continue;
      const double density = density_.of(each, object(id).placed_at);
      if (least == kNoObject || density < least_density ||
          (density == least_density && object(id).placed_at < object(least).placed_at)) {
        least = id;
        least_density = density;
      }
    }
    return least;
  }

  void enter(ObjectId id, Class its_class) {
    density_.wait(its_class, object(id).bytes);
    place(id, its_class);
  }

  void give_up(const std::optional<Ghost>& ghost) {
    if (ghost) density_.given_up(ghost->list, ghost->placed_at, ghost->bytes);
  }

  static void count_use(Object* used) {
    if (used->uses < kMostUses) ++used->uses;
  }

  ReuseDensity density_;
  GhostList ghosts_;
  std::uint64_t ghost_bytes_;
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_chain_lhd(std::uint64_t capacity_bytes) {
  return std::make_unique<ChainLhd>(capacity_bytes);
}

}  // namespace nearkv
