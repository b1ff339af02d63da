#include "daemon/server/namespace_shares.hpp"

#include "object/namespace_table.hpp"

namespace nearkv {

NamespaceShares::NamespaceShares(ObjectStore* store, std::map<std::uint16_t, std::uint32_t> most)
    : store_(store), most_(std::move(most)) {
  for (const NamespaceInfo& info : store_->namespaces()) known_[info.tenant].insert(info.digest);
}

Status NamespaceShares::open(const Namespace& name, std::uint32_t* number) {
  const NamespaceInfo info = NamespaceTable::describe(name);
  const std::scoped_lock lock(mutex_);
  std::set<Digest>& known = known_[info.tenant];
  const auto most = most_.find(info.tenant);
  if (most != most_.end() && known.size() >= most->second && !known.contains(info.digest)) {
    return Status::kQuota;
  }
  const Status status = store_->open_namespace(name, number);
  if (status == Status::kOk) known.insert(info.digest);
  return status;
}

Status NamespaceShares::adopt(const NamespaceInfo& info, std::uint32_t* number) {
  const std::scoped_lock lock(mutex_);
  const Status status = store_->adopt_namespace(info, number);
  if (status == Status::kOk) known_[info.tenant].insert(info.digest);
  return status;
}

}  // namespace nearkv
