// What two windows on two machines tell each other.
#pragma once

#include <array>
#include <bitset>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "nkv_abi.h"
#include "remote/link.hpp"
#include "remote/proof.hpp"
#include "remote/runs.hpp"

namespace nearkv {

/// A submission or a completion, whichever comes this way.
using Entry = std::array<std::byte, NKV_DAEMON_SUBMISSION_BYTES>;

/// The end of an open connection: bytes of the data area and entries of rings, each way in the
/// order in which they were sent. Nothing that comes is believed: it is for this session, within
/// bounds, under a checksum, or the link is broken off.
///
/// Thread safety: one thread at a time.
class Mirror {
 public:
  using Clock = std::chrono::steady_clock;

  /// Where entries go.
  class Owner {
   public:
    virtual ~Owner() = default;
    /// Memory for the `bytes` that come with an entry; nothing if that is not what belongs to it.
    virtual std::optional<std::span<std::byte>> place_of(const Entry& entry, std::size_t bytes) = 0;
    /// An entry, once it and all before it are there.
    virtual void take(const Entry& entry) = 0;
  };

  /// `comes` is the kind of entry that the other side sends.
  Mirror(const Proof& session, std::span<std::byte> data, std::uint32_t comes, Owner* owner)
      : session_(session), data_(data), comes_(comes), owner_(owner) {}

  /// At most how many messages a request with these bytes takes.
  [[nodiscard]] static std::uint64_t messages_for(std::span<const Run> runs);

  void send_data(Link* link, std::span<const Run> runs);

  /// `entry` is a daemon_submission or a daemon_completion; `bytes` stay until they were received.
  void send_entry(Link* link, std::uint32_t kind, std::span<const std::byte> entry,
                  std::span<const std::byte> bytes);

  // As LinkReceiver's; false breaks off.
  std::optional<Runs> place(std::span<const std::byte> header, std::size_t bytes);
  [[nodiscard]] bool landed(std::span<const std::byte> header, const Runs& data);

  /// When something came last.
  [[nodiscard]] Clock::time_point heard() const { return heard_; }

 private:
  [[nodiscard]] std::optional<nkv_remote_message> check(std::span<const std::byte> header) const;
  void send(Link* link, nkv_remote_message message, std::span<const std::byte> rest,
            const ConstRuns& data);

  Proof session_;
  std::span<std::byte> data_;
  std::uint32_t comes_;
  Owner* owner_;
  std::uint64_t sent_ = 0;
  std::uint64_t next_ = 0;  ///< The first message that has not landed.
  std::bitset<NKV_REMOTE_MAX_UNLANDED> begun_;
  std::bitset<NKV_REMOTE_MAX_UNLANDED> landed_;
  std::map<std::uint64_t, Entry> waiting_;  ///< Entries behind messages that have not landed.
  Clock::time_point heard_ = Clock::now();
};

}  // namespace nearkv
