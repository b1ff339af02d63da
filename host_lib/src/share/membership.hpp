// Who takes part in a shared region: the one thing that hosts must agree on, kept by a service that
// can (etcd), because memory without coherence cannot decide between two writers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "nearkv/status.hpp"

namespace nearkv {

/// The log of a host's past incarnation that nobody has taken over yet.
struct OrphanLog {
  std::uint32_t epoch = 0;
  std::uint8_t area = 0;
  bool is_claimed = false;  ///< By the view's claimant.

  bool operator==(const OrphanLog&) const = default;
};

struct HostRecord {
  std::uint32_t epoch = 0;  ///< Of the present or last incarnation; 0: never joined.
  bool is_live = false;
  /// May publish, and its log must be taken over when it dies. Before, its log holds nothing that
  /// does not stand elsewhere too.
  bool is_active = false;
  std::uint8_t area = 0;          ///< Its log's.
  std::uint32_t quiet_epoch = 0;  ///< No cache holds a dirty line of this epoch or an earlier one.
  std::vector<OrphanLog> orphans{};

  bool operator==(const HostRecord&) const = default;
};

/// One state of the membership. Revisions grow by one with each change.
struct MembershipView {
  std::uint64_t revision = 0;
  std::vector<HostRecord> hosts{};
  std::optional<std::uint16_t> claimant{};  ///< Takes over all claimed logs. Live.

  bool operator==(const MembershipView&) const = default;

  [[nodiscard]] bool is_live(std::uint16_t host, std::uint32_t epoch) const {
    return hosts[host].is_live && hosts[host].epoch == epoch;
  }
  [[nodiscard]] bool has_orphans() const;
  /// No incarnation but the live ones can still change memory.
  [[nodiscard]] bool is_quiet() const;
};

/// The changes that there are. Each returns kOk and changes the view, or says why not and leaves
/// it.
namespace transition {
/// A new incarnation: kExists while the last one counts as live, kNotYet while both of its log
/// areas wait to be taken over.
[[nodiscard]] Status join(MembershipView* view, std::uint16_t host);
[[nodiscard]] Status activate(MembershipView* view, std::uint16_t host, std::uint32_t epoch);
/// Declares a live host dead: kNotFound if it is not live.
[[nodiscard]] Status fence(MembershipView* view, std::uint16_t host);
/// Nothing that this incarnation or an earlier one has stored is still on its way to memory.
[[nodiscard]] Status declare_quiet(MembershipView* view, std::uint16_t host, std::uint32_t epoch);
/// Takes all orphan logs, to take them over: kNotYet while another live host does, kNotFound if
/// there are none. One at a time, because an object may stand in several of them.
[[nodiscard]] Status claim(MembershipView* view, std::uint16_t host, std::uint32_t epoch);
/// What was claimed stands in the claimant's log. Makes it active.
[[nodiscard]] Status complete(MembershipView* view, std::uint16_t host, std::uint32_t epoch);
}  // namespace transition

/// One host's access to the membership. Calls may wait for the service; a service that cannot be
/// reached is kIoError. Each change is decided once for all hosts. Not thread safe.
class Membership {
 public:
  virtual ~Membership() = default;

  /// The newest state known; never an older one than last time.
  [[nodiscard]] virtual Status refresh(MembershipView* view) = 0;

  /// As the transitions, for the host that this object stands for; `view` is the state after it.
  [[nodiscard]] virtual Status join(MembershipView* view) = 0;
  [[nodiscard]] virtual Status activate(MembershipView* view) = 0;
  [[nodiscard]] virtual Status declare_quiet(std::uint32_t epoch, MembershipView* view) = 0;
  [[nodiscard]] virtual Status claim(MembershipView* view) = 0;
  [[nodiscard]] virtual Status complete(MembershipView* view) = 0;

  /// True if the incarnation that joined was not fenced at some moment after this call began. What
  /// it had brought to memory before is seen by whoever takes its log over. Called for each
  /// publication and each read, so it must not wait: a deadline on a monotonic clock will do.
  [[nodiscard]] virtual bool confirm() = 0;
};

}  // namespace nearkv
