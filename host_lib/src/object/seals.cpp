#include "object/seals.hpp"

#include <string>

namespace nearkv {

Status Seals::lend(std::uint16_t tenant, Loan* loan) {
  {
    const std::scoped_lock lock(mutex_);
    std::vector<std::unique_ptr<Sealer>>& idle = idle_[tenant];
    if (!idle.empty()) {
      *loan = Loan(this, tenant, std::move(idle.back()));
      idle.pop_back();
      return Status::kOk;
    }
  }
  SecretKey key;
  Status status = SecretKey::derive(master_, "tenant " + std::to_string(tenant), &key);
  std::unique_ptr<Sealer> sealer;
  if (status == Status::kOk) status = Sealer::create(key, &sealer);
  if (status == Status::kOk) *loan = Loan(this, tenant, std::move(sealer));
  return status;
}

void Seals::give_back(std::uint16_t tenant, std::unique_ptr<Sealer> sealer) {
  const std::scoped_lock lock(mutex_);
  idle_[tenant].push_back(std::move(sealer));
}

}  // namespace nearkv
