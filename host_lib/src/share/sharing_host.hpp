// One host's end of a region that several hosts share without coherence.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "nearkv/status.hpp"
#include "share/borrow.hpp"
#include "share/directory.hpp"
#include "share/extent_space.hpp"
#include "share/host_lease.hpp"
#include "share/host_log.hpp"
#include "share/mailbox.hpp"
#include "share/object_index.hpp"
#include "share/share_context.hpp"

namespace nearkv {

/// Publishes objects, reads those of all hosts, takes over those of dead hosts. README.md has the
/// protocol. Nothing waits: what needs other hosts is kNotYet, and goes on in `poll`, which the
/// caller calls often. kFenced: this incarnation counts as dead, and nothing but destruction is
/// left. Not thread safe.
class SharingHost : private ObjectHome {
 public:
  /// Joins as a new incarnation of `self`. The process that was the last one must have ended, on
  /// this same machine. Writes the whole region's lines back, because some may be that process's.
  /// Both references must outlive the host.
  [[nodiscard]] static Status join(SharedMemory& memory, Membership& membership, std::uint16_t self,
                                   std::unique_ptr<SharingHost>* host);

  /// One round: follows the membership and all logs, answers other hosts, reuses space.
  [[nodiscard]] Status poll();

  /// All hosts know of this one, and it knows all there is: publishing and reading may begin.
  [[nodiscard]] bool is_ready() const { return is_ready_; }

  /// Makes an object readable by all. When kOk returns, it survives this host. kPoolFull without
  /// room; kNotYet if others must take the log first.
  [[nodiscard]] Status publish(const ObjectKey& key, std::span<const std::byte> bytes,
                               ObjectId* id);
  /// The same of an object that can be rewritten, by any host.
  [[nodiscard]] Status publish_mutable(const ObjectKey& key, std::span<const std::byte> bytes,
                                       ObjectId* id);

  /// Ends an object that this host owns: it published it, or has taken it over. kNotFound if it
  /// does not; kNotYet while hosts hold rights to it, or while objects are being taken over.
  [[nodiscard]] Status remove(const ObjectId& id);

  /// Keeps an object's bytes where they are until `unpin`. kNotFound: not there, or not yet.
  [[nodiscard]] Status pin(const ObjectKey& key, Pin* pin);
  [[nodiscard]] Status pin(const ObjectId& id, Pin* pin);
  void unpin(const Pin& pin) { leases_.unpin(pin); }

  /// Copies a pinned object; `bytes` has its length. kCorrupt if they fail their checksum.
  [[nodiscard]] Status read(const Pin& pin, std::span<std::byte> bytes);

  /// Rights to a mutable object: see Directory.
  [[nodiscard]] Status acquire_read(const ObjectId& id);
  [[nodiscard]] Status acquire_write(const ObjectId& id, std::uint32_t bytes);
  /// The present version of an object that may be read; kStalePage without the right.
  [[nodiscard]] Status read_current(const ObjectId& id, std::vector<std::byte>* bytes,
                                    std::uint32_t* version);
  /// Writes the next version of an object that may be written; finish_write tells the outcome.
  [[nodiscard]] Status write_next(const ObjectId& id, std::span<const std::byte> bytes,
                                  std::uint32_t* version);
  [[nodiscard]] Status finish_write(const ObjectId& id) { return directory_.finish_write(id); }

  /// Dead hosts have left logs.
  [[nodiscard]] bool has_orphans() const { return context_.view.has_orphans(); }
  /// Takes all of them over; kNotYet while another host does or some log is not here yet.
  [[nodiscard]] Status adopt();

  /// When to ask neighbours for memory.
  void set_borrow_limits(const BorrowLimits& limits) { borrow_.limits = limits; }
  [[nodiscard]] const ExtentSpace& space() const { return space_; }
  /// What this host owns.
  [[nodiscard]] const std::map<ObjectId, nkv_share_entry>& objects() const {
    return own_.objects();
  }

 private:
  struct Peer {
    LogReader reader;
    ObjectIndex index{};
  };

  SharingHost(const ShareContext& context, const LogName& name);

  [[nodiscard]] Status fenced();
  [[nodiscard]] Status check() const;
  [[nodiscard]] Status append(nkv_share_entry entry, ObjectId* id);
  [[nodiscard]] Status make_room();
  [[nodiscard]] Status commit();
  [[nodiscard]] bool is_needed(const nkv_share_entry& entry) const;
  [[nodiscard]] Status publish_version_of(const ObjectKey& key, std::span<const std::byte> bytes,
                                          std::uint32_t version, ObjectId* id);
  template <typename Name>
  [[nodiscard]] Status pin_any(const Name& name, Pin* pin);
  [[nodiscard]] Status copy_verified(const Place& place, std::uint32_t payload_crc,
                                     std::span<std::byte> bytes);
  void write_payload(const Place& place, std::span<const std::byte> bytes);

  void take_view(const MembershipView& view);
  void follow_logs();
  void follow(Peer* peer);
  [[nodiscard]] bool is_orphan(const LogName& name) const;
  /// What a log says holds once its host is active, and until it has been taken over.
  [[nodiscard]] bool counts(const LogName& name) const;
  void forget_ended_logs();
  [[nodiscard]] bool has_all_logs() const;
  [[nodiscard]] bool all_act_on(std::uint64_t revision) const;
  void apply(const nkv_share_entry& entry, const LogName& source, ObjectIndex* index);
  [[nodiscard]] bool is_current(const nkv_share_entry& object) const;
  void answer_messages();
  void acknowledge();
  void reclaim();
  void lend();
  [[nodiscard]] Status become_ready();

  [[nodiscard]] Status read_orphan(Peer* peer);
  [[nodiscard]] Status inherit();
  void take_completion(const MembershipView& view);
  void sort_space(std::uint64_t view_revision);

  [[nodiscard]] const nkv_share_entry* owned(const ObjectId& id) const override;
  [[nodiscard]] std::optional<std::uint16_t> home_of(const ObjectId& id) const override;
  [[nodiscard]] std::optional<Place> allocate(std::uint32_t extents) override;
  [[nodiscard]] Status publish_version(const nkv_share_entry& version) override;
  void abandon(const Place& place) override;
  [[nodiscard]] bool may_grant_writes() const override;

  ShareContext context_;
  LogWriter log_;
  ObjectIndex own_;
  std::map<LogName, Peer> peers_;
  HostLeases leases_;
  ExtentSpace space_;
  Mailboxes mailboxes_;
  Directory directory_;
  Borrow borrow_;
  bool is_fenced_ = false;
  bool is_ready_ = false;
  bool is_completing_ = false;  ///< Of what it claimed, it does not know whether it is completed.
  std::uint64_t joined_revision_ = 0;
  std::uint64_t acted_revision_ = 0;    ///< Of the view that this host's leases stand for.
  std::uint64_t adopted_revision_ = 0;  ///< When this host last took logs over.
  std::uint64_t acknowledged_ = 0;      ///< By all peers.
};

}  // namespace nearkv
