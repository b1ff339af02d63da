#include <algorithm>

#include "policy/ghost_list.hpp"
#include "policy/listed_policy.hpp"
#include "policy/policies.hpp"

namespace nearkv {
namespace {

/// T1 holds what was used once, T2 what was used again, B1 and B2 the ghosts of each. A ghost that
/// comes back moves the target for T1's bytes towards its side.
class Arc final : public ListedPolicy {
 public:
  explicit Arc(std::uint64_t capacity_bytes) : ListedPolicy(2), capacity_bytes_(capacity_bytes) {}

 private:
  enum List : std::uint8_t { kT1, kT2 };

  void on_insert(ObjectId id) override {
    const std::uint64_t b1_bytes = b1_.bytes();
    const std::uint64_t b2_bytes = b2_.bytes();
    if (b1_.take(object(id).fingerprint)) {
      target_t1_bytes_ = std::min(capacity_bytes_, target_t1_bytes_ + step(id, b2_bytes, b1_bytes));
      place(id, kT2);
    } else if (b2_.take(object(id).fingerprint)) {
      target_t1_bytes_ -= std::min(target_t1_bytes_, step(id, b1_bytes, b2_bytes));
      place(id, kT2);
    } else {
      place(id, kT1);
    }
    forget();
  }

  void on_hit(ObjectId id) override { place(id, kT2); }

  void on_erase(const Object& gone, Removal removal) override {
    if (removal != Removal::kEvicted) return;
    (gone.list == kT1 ? b1_ : b2_).add({.fingerprint = gone.fingerprint, .bytes = gone.bytes});
  }

  ObjectId candidate() override {
    const ObjectId once = oldest(kT1);
    const ObjectId again = oldest(kT2);
    if (again == kNoObject || (once != kNoObject && bytes_of(kT1) > target_t1_bytes_)) return once;
    return again;
  }

  /// The object's bytes, times how much larger the other ghosts are than its own kind.
  [[nodiscard]] std::uint64_t step(ObjectId id, std::uint64_t others, std::uint64_t own) {
    const double ratio = static_cast<double>(others) / static_cast<double>(own);
    const double bytes = object(id).bytes * std::max(1.0, ratio);
    return static_cast<std::uint64_t>(std::min(bytes, static_cast<double>(capacity_bytes_)));
  }

  /// T1 and B1 stay within the capacity, all four within twice the capacity.
  void forget() {
    while (bytes_of(kT1) + b1_.bytes() > capacity_bytes_ && b1_.take_oldest()) {
    }
    while (bytes() + b1_.bytes() + b2_.bytes() > 2 * capacity_bytes_ && b2_.take_oldest()) {
    }
  }

  std::uint64_t capacity_bytes_;
  std::uint64_t target_t1_bytes_ = 0;
  GhostList b1_;
  GhostList b2_;
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_arc(std::uint64_t capacity_bytes) {
  return std::make_unique<Arc>(capacity_bytes);
}

}  // namespace nearkv
