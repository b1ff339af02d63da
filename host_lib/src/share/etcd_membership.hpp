// The membership of a region in etcd.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "share/etcd_client.hpp"
#include "share/membership.hpp"

namespace nearkv {

struct EtcdOptions {
  std::vector<std::string> endpoints{};  ///< "http://host:port".
  std::string region{};                  ///< Names the shared region.
  std::uint16_t hosts = 0;               ///< As the region's.
  std::int64_t ttl_s = 5;                ///< A host that is silent for so long may be fenced.
};

/// One document holds the view and changes by compare-and-swap on its revision; beside it each live
/// host has a key under a lease. Only a host whose key is gone can be fenced, in one transaction
/// with that observation.
///
/// Clocks: etcd lets a lease end no sooner than its TTL after it has taken the last renewal, by its
/// leader's monotonic clock. `confirm` trusts this host's monotonic clock (CLOCK_BOOTTIME, which
/// runs on in suspend) up to nine tenths of the TTL after a renewal was sent. The two may drift
/// apart by a tenth in that time; nothing else is assumed of clocks.
class EtcdMembership : public Membership {
 public:
  EtcdMembership(const EtcdOptions& options, std::uint16_t host);

  [[nodiscard]] Status refresh(MembershipView* view) override;
  [[nodiscard]] Status join(MembershipView* view) override;
  [[nodiscard]] Status activate(MembershipView* view) override;
  [[nodiscard]] Status declare_quiet(std::uint32_t epoch, MembershipView* view) override;
  [[nodiscard]] Status claim(MembershipView* view) override;
  [[nodiscard]] Status complete(MembershipView* view) override;
  [[nodiscard]] bool confirm() override;

  /// Renews this host's lease: to be called a few times within the TTL. kFenced once it has ended.
  [[nodiscard]] Status keep_alive();

  /// Fences every live host whose key is gone. Any process may call it.
  [[nodiscard]] Status fence_silent_hosts();

  /// An operator's word that a machine is off, or cannot reach the memory any more.
  [[nodiscard]] Status declare_host_quiet(std::uint16_t host);

  /// Ends the membership at once: the others need not wait for the TTL.
  [[nodiscard]] Status leave();

 private:
  using Transition = std::function<Status(MembershipView*)>;

  [[nodiscard]] Status read(MembershipView* view, std::int64_t* revision);
  [[nodiscard]] Status change(const Transition& transition, MembershipView* view,
                              const std::string& absent = {});
  [[nodiscard]] std::string key_of(std::uint16_t host) const;

  EtcdOptions options_;
  std::uint16_t host_;
  EtcdClient client_;
  std::uint32_t epoch_ = 0;
  std::int64_t lease_ = 0;
  std::chrono::nanoseconds valid_until_{0};  ///< Since boot.
  MembershipView newest_{};
};

}  // namespace nearkv
