#include "share/membership.hpp"

#include <algorithm>

#include "share/region.hpp"

namespace nearkv {

bool MembershipView::has_orphans() const {
  return std::ranges::any_of(hosts, [](const HostRecord& host) { return !host.orphans.empty(); });
}

bool MembershipView::is_quiet() const {
  return std::ranges::all_of(hosts, [](const HostRecord& host) {
    return host.quiet_epoch >= (host.is_live ? host.epoch - 1 : host.epoch);
  });
}

namespace transition {
namespace {

void unclaim(MembershipView* view) {
  view->claimant.reset();
  for (HostRecord& host : view->hosts) {
    for (OrphanLog& log : host.orphans) log.is_claimed = false;
  }
}

}  // namespace

Status join(MembershipView* view, std::uint16_t host) {
  HostRecord& record = view->hosts[host];
  if (record.is_live) return Status::kExists;
  std::uint8_t area = 0;
  while (
      area < kLogAreas &&
      std::ranges::any_of(record.orphans, [&](const OrphanLog& log) { return log.area == area; })) {
    ++area;
  }
  if (area == kLogAreas) return Status::kNotYet;
  ++view->revision;
  ++record.epoch;
  record.is_live = true;
  record.is_active = false;
  record.area = area;
  return Status::kOk;
}

Status activate(MembershipView* view, std::uint16_t host, std::uint32_t epoch) {
  if (!view->is_live(host, epoch)) return Status::kFenced;
  if (!view->hosts[host].orphans.empty()) return Status::kNotYet;
  ++view->revision;
  view->hosts[host].is_active = true;
  return Status::kOk;
}

Status fence(MembershipView* view, std::uint16_t host) {
  HostRecord& record = view->hosts[host];
  if (!record.is_live) return Status::kNotFound;
  ++view->revision;
  record.is_live = false;
  if (record.is_active) record.orphans.push_back({record.epoch, record.area, false});
  if (view->claimant == host) unclaim(view);
  return Status::kOk;
}

Status declare_quiet(MembershipView* view, std::uint16_t host, std::uint32_t epoch) {
  HostRecord& record = view->hosts[host];
  if (epoch > record.epoch || (record.is_live && epoch == record.epoch)) {
    return Status::kBadArgument;
  }
  ++view->revision;
  record.quiet_epoch = std::max(record.quiet_epoch, epoch);
  return Status::kOk;
}

Status claim(MembershipView* view, std::uint16_t host, std::uint32_t epoch) {
  if (!view->is_live(host, epoch)) return Status::kFenced;
  if (!view->has_orphans()) return Status::kNotFound;
  if (view->claimant.has_value()) return Status::kNotYet;
  ++view->revision;
  view->claimant = host;
  for (HostRecord& record : view->hosts) {
    for (OrphanLog& log : record.orphans) log.is_claimed = true;
  }
  return Status::kOk;
}

Status complete(MembershipView* view, std::uint16_t host, std::uint32_t epoch) {
  if (!view->is_live(host, epoch) || view->claimant != host) return Status::kFenced;
  ++view->revision;
  for (HostRecord& record : view->hosts) {
    std::erase_if(record.orphans, [](const OrphanLog& log) { return log.is_claimed; });
  }
  view->claimant.reset();
  view->hosts[host].is_active = true;
  return Status::kOk;
}

}  // namespace transition
}  // namespace nearkv
