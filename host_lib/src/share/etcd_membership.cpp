#include "share/etcd_membership.hpp"

#include <time.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <random>

namespace nearkv {
namespace {

using Json = nlohmann::json;

/// A change that others keep overtaking is given up.
constexpr int kAttempts = 100;

std::chrono::nanoseconds since_boot() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

Json to_json(const MembershipView& view) {
  Json hosts = Json::array();
  for (const HostRecord& record : view.hosts) {
    Json orphans = Json::array();
    for (const OrphanLog& log : record.orphans) {
      orphans.push_back({{"epoch", log.epoch}, {"area", log.area}, {"claimed", log.is_claimed}});
    }
    hosts.push_back({{"epoch", record.epoch},
                     {"live", record.is_live},
                     {"active", record.is_active},
                     {"area", record.area},
                     {"quiet_epoch", record.quiet_epoch},
                     {"orphans", orphans}});
  }
  Json json = {{"revision", view.revision}, {"hosts", hosts}};
  if (view.claimant) json["claimant"] = *view.claimant;
  return json;
}

/// Nothing if the document is not one that this library writes.
std::optional<MembershipView> from_json(const std::string& text, std::size_t hosts) {
  // The library throws on a wrong type; whatever it may be, it is not a view.
  try {
    const Json json = Json::parse(text);
    MembershipView view;
    view.revision = json.at("revision").get<std::uint64_t>();
    for (const Json& item : json.at("hosts")) {
      HostRecord& record = view.hosts.emplace_back();
      record.epoch = item.at("epoch").get<std::uint32_t>();
      record.is_live = item.at("live").get<bool>();
      record.is_active = item.at("active").get<bool>();
      record.area = item.at("area").get<std::uint8_t>();
      record.quiet_epoch = item.at("quiet_epoch").get<std::uint32_t>();
      for (const Json& log : item.at("orphans")) {
        record.orphans.push_back({log.at("epoch").get<std::uint32_t>(),
                                  log.at("area").get<std::uint8_t>(),
                                  log.at("claimed").get<bool>()});
      }
    }
    if (json.contains("claimant")) view.claimant = json["claimant"].get<std::uint16_t>();
    if (view.hosts.size() != hosts || (view.claimant && *view.claimant >= hosts)) {
      return std::nullopt;
    }
    return view;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

EtcdMembership::EtcdMembership(const EtcdOptions& options, std::uint16_t host)
    : options_(options), host_(host), client_(options.endpoints) {
  newest_.hosts.resize(options.hosts);
}

std::string EtcdMembership::key_of(std::uint16_t host) const {
  return "/nearkv/" + options_.region + "/live/" + std::to_string(host);
}

Status EtcdMembership::read(MembershipView* view, std::int64_t* revision) {
  EtcdValue value;
  const Status status = client_.get("/nearkv/" + options_.region + "/membership", &value);
  if (status != Status::kOk) return status;
  *revision = value.mod_revision;
  *view = {};
  view->hosts.resize(options_.hosts);
  if (value.mod_revision == 0) return Status::kOk;
  const std::optional<MembershipView> found = from_json(value.value, options_.hosts);
  if (!found) return Status::kBadPool;
  *view = *found;
  return Status::kOk;
}

Status EtcdMembership::change(const Transition& transition, MembershipView* view,
                              const std::string& absent) {
  std::random_device random;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::int64_t revision = 0;
    Status status = read(view, &revision);
    if (status == Status::kOk) status = transition(view);
    if (status != Status::kOk) return status;
    // Told from what others write, also where they change the same.
    Json document = to_json(*view);
    document["write"] = std::to_string(random()) + std::to_string(random());
    status = client_.put_if("/nearkv/" + options_.region + "/membership", revision, document.dump(),
                            absent);
    if (status == Status::kOk) newest_ = *view;
    if (status != Status::kExists) return status;
    if (!absent.empty()) {
      EtcdValue key;
      status = client_.get(absent, &key);
      if (status != Status::kOk) return status;
      if (key.mod_revision != 0) return Status::kExists;
    }
  }
  return Status::kTimeout;
}

Status EtcdMembership::refresh(MembershipView* view) {
  std::int64_t revision = 0;
  MembershipView found;
  const Status status = read(&found, &revision);
  if (status != Status::kOk) return status;
  if (found.revision > newest_.revision) newest_ = found;
  *view = newest_;
  return Status::kOk;
}

Status EtcdMembership::join(MembershipView* view) {
  // The last incarnation's key must be gone, as for anyone who fences it.
  Status status = change(
      [&](MembershipView* next) {
        const Status fenced = transition::fence(next, host_);
        return fenced == Status::kNotFound ? Status::kOk : fenced;
      },
      view, key_of(host_));
  if (status != Status::kOk) return status;
  const std::chrono::nanoseconds asked = since_boot();
  status = client_.grant_lease(options_.ttl_s, &lease_);
  if (status != Status::kOk) return status;
  status = client_.put_leased(key_of(host_), std::to_string(lease_), lease_);
  if (status != Status::kOk) return status;
  valid_until_ = asked + std::chrono::milliseconds(options_.ttl_s * 900);
  status = change([&](MembershipView* next) { return transition::join(next, host_); }, view);
  if (status != Status::kOk) {
    (void)client_.revoke(lease_);
    return status;
  }
  epoch_ = view->hosts[host_].epoch;
  return Status::kOk;
}

Status EtcdMembership::activate(MembershipView* view) {
  return change([&](MembershipView* next) { return transition::activate(next, host_, epoch_); },
                view);
}

Status EtcdMembership::declare_quiet(std::uint32_t epoch, MembershipView* view) {
  return change([&](MembershipView* next) { return transition::declare_quiet(next, host_, epoch); },
                view);
}

Status EtcdMembership::claim(MembershipView* view) {
  return change([&](MembershipView* next) { return transition::claim(next, host_, epoch_); }, view);
}

Status EtcdMembership::complete(MembershipView* view) {
  return change([&](MembershipView* next) { return transition::complete(next, host_, epoch_); },
                view);
}

bool EtcdMembership::confirm() { return since_boot() < valid_until_; }

Status EtcdMembership::keep_alive() {
  const std::chrono::nanoseconds asked = since_boot();
  const Status status = client_.keep_alive(lease_);
  if (status == Status::kNotFound) {
    valid_until_ = std::chrono::nanoseconds{0};
    return Status::kFenced;
  }
  if (status == Status::kOk) valid_until_ = asked + std::chrono::milliseconds(options_.ttl_s * 900);
  return status;
}

Status EtcdMembership::fence_silent_hosts() {
  MembershipView view;
  Status status = refresh(&view);
  for (std::uint16_t host = 0; status == Status::kOk && host < options_.hosts; ++host) {
    if (!view.hosts[host].is_live) continue;
    const std::uint32_t epoch = view.hosts[host].epoch;
    MembershipView after;
    status = change(
        [&](MembershipView* next) {
          if (!next->is_live(host, epoch)) return Status::kNotFound;
          return transition::fence(next, host);
        },
        &after, key_of(host));
    // Its key is there, or somebody else was faster.
    if (status == Status::kExists || status == Status::kNotFound) status = Status::kOk;
  }
  return status;
}

Status EtcdMembership::declare_host_quiet(std::uint16_t host) {
  MembershipView view;
  return change(
      [&](MembershipView* next) {
        return transition::declare_quiet(next, host, next->hosts[host].epoch);
      },
      &view);
}

Status EtcdMembership::leave() {
  valid_until_ = std::chrono::nanoseconds{0};
  return client_.revoke(lease_);
}

}  // namespace nearkv
