#include <algorithm>

#include "policy/listed_policy.hpp"
#include "policy/policies.hpp"

namespace nearkv {
namespace {

/// Uses count up to 63, so ranks lie in [age_, age_ + 63] and a ring of lists holds them all.
class Lfu final : public ListedPolicy {
 public:
  Lfu() : ListedPolicy(kRanks) {}

 private:
  static constexpr std::uint64_t kRanks = 64;

  [[nodiscard]] static std::uint8_t list_of(std::uint64_t rank) {
    return static_cast<std::uint8_t>(rank % kRanks);
  }

  void on_insert(ObjectId id) override { on_hit(id); }

  void on_hit(ObjectId id) override {
    std::uint8_t& uses = object(id).uses;
    uses = static_cast<std::uint8_t>(std::min<std::uint64_t>(uses + 1U, kRanks - 1));
    place(id, list_of(age_ + uses));
  }

  void on_erase(const Object& /*gone*/, Removal /*removal*/) override {}

  ObjectId candidate() override {
    for (std::uint64_t rank = age_; rank < age_ + kRanks; ++rank) {
      const ObjectId id = oldest(list_of(rank));
      if (id == kNoObject) continue;
      age_ = rank;
      return id;
    }
    return kNoObject;
  }

  std::uint64_t age_ = 0;  ///< Rank of the last candidate; no list holds a lower one.
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_lfu(std::uint64_t /*capacity_bytes*/) {
  return std::make_unique<Lfu>();
}

}  // namespace nearkv
