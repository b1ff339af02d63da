// Coherence of mutable objects in software: the owner of an object is its home and keeps its
// directory, with the states that caches give to lines.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "nearkv/status.hpp"
#include "nkv_abi.h"
#include "share/mailbox.hpp"
#include "share/object_index.hpp"
#include "share/share_context.hpp"

namespace nearkv {

/// What the directory wants of the host whose objects it keeps.
class ObjectHome {
 public:
  virtual ~ObjectHome() = default;

  /// The present version of an object that this host owns, else null.
  [[nodiscard]] virtual const nkv_share_entry* owned(const ObjectId& id) const = 0;
  /// The live host that owns an object.
  [[nodiscard]] virtual std::optional<std::uint16_t> home_of(const ObjectId& id) const = 0;
  [[nodiscard]] virtual std::optional<Place> allocate(std::uint32_t extents) = 0;
  /// Replaces the present version; kNotYet if the log has no room.
  [[nodiscard]] virtual Status publish_version(const nkv_share_entry& version) = 0;
  /// A dead host may be writing there still.
  virtual void abandon(const Place& place) = 0;
  /// All hosts have given up what a dead home had granted them.
  [[nodiscard]] virtual bool may_grant_writes() const = 0;
};

/// Both ends of the protocol: the home's, for objects that this host owns, and the client's. A
/// version is never changed in place: a writer fills fresh extents of the home, so that a crash
/// leaves the version before. Nobody holds a right to read while a version is published, hence a
/// read that begins after a write has finished sees it. Rights end with the home's incarnation.
class Directory {
 public:
  Directory(ShareContext* context, Mailboxes* mailboxes, ObjectHome* home);

  /// Client: the right to read until further notice; kNotYet while others are asked, kNotFound if
  /// no live host owns the object.
  [[nodiscard]] Status acquire_read(const ObjectId& id);
  /// Client: the right to write the next version, of `bytes`.
  [[nodiscard]] Status acquire_write(const ObjectId& id, std::uint32_t bytes);
  /// The version that may be read now, or null.
  [[nodiscard]] const nkv_share_message* readable(const ObjectId& id) const;
  /// The version that may be written now, or null.
  [[nodiscard]] const nkv_share_message* writable(const ObjectId& id) const;
  /// Client: the new version is in memory.
  void written(const ObjectId& id, std::uint32_t payload_crc);
  /// kOk once the home has published what was written, kAborted if it died before it said so:
  /// the version may have been published or not. Forgets the outcome.
  [[nodiscard]] Status finish_write(const ObjectId& id);

  /// Home: true if no right to the object is out; else begins to take back rights to read.
  [[nodiscard]] bool may_remove(const ObjectId& id);

  void take(std::uint16_t from, const nkv_share_message& message);
  /// Ends the rights of dead hosts, and those that dead homes had granted.
  void follow_view();
  /// Home: grants what can be granted.
  void advance();

 private:
  enum class Right : std::uint8_t {
    kWantsRead,
    kRead,
    kWantsWrite,
    kWrite,
    kWritten,
    kDone,
    kLost
  };
  struct Grant {
    Right right = Right::kWantsRead;
    std::uint16_t home = 0;
    std::uint32_t home_epoch = 0;
    nkv_share_message version{};
  };
  struct Request {
    std::uint16_t from = 0;
    std::uint32_t epoch = 0;
    nkv_share_message message{};
  };
  struct Writer {
    enum class State : std::uint8_t {
      kWaiting,
      kWriting,
      kWritten
    };  ///< kWaiting: for readers to stop.
    Request request{};
    Place place{};
    State state = State::kWaiting;
  };
  struct Block {
    std::map<std::uint16_t, std::uint32_t> readers{};  ///< Hosts and epochs.
    std::set<std::uint16_t> invalidating{};
    std::optional<Writer> writer{};
    std::deque<Request> waiting{};
  };

  [[nodiscard]] Status request(const ObjectId& id, std::uint8_t kind, std::uint32_t bytes);
  void take_at_home(std::uint16_t from, const nkv_share_message& message);
  void take_at_client(std::uint16_t from, const nkv_share_message& message);
  void send(std::uint16_t to, std::uint8_t kind, const ObjectId& id,
            const nkv_share_message& about = {});
  void invalidate_readers(const ObjectId& id, Block* block);
  void end_dead_rights(Block* block);
  [[nodiscard]] bool advance(const ObjectId& id, Block* block);
  [[nodiscard]] bool grant_write(const ObjectId& id, Block* block);
  [[nodiscard]] bool publish_written(const ObjectId& id, Block* block);

  ShareContext& context_;
  Mailboxes& mailboxes_;
  ObjectHome& home_;
  std::map<ObjectId, Block> blocks_;  ///< Of objects that this host owns.
  std::map<ObjectId, Grant> grants_;  ///< Of this host.
};

}  // namespace nearkv
