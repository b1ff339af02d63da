#include "policy/listed_policy.hpp"
#include "policy/policies.hpp"

namespace nearkv {
namespace {

class Lru final : public ListedPolicy {
 public:
  Lru() : ListedPolicy(1) {}

 private:
  void on_insert(ObjectId id) override { place(id, 0); }
  void on_hit(ObjectId id) override { place(id, 0); }
  void on_erase(const Object& /*gone*/, Removal /*removal*/) override {}
  ObjectId candidate() override { return oldest(0); }
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_lru(std::uint64_t /*capacity_bytes*/) {
  return std::make_unique<Lru>();
}

}  // namespace nearkv
