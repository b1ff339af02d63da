// A store on another machine.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nearkv/object_store.hpp"

namespace nearkv {

struct RemoteStoreOptions {
  std::string address;            ///< HOST:PORT of a RemoteServer.
  std::vector<std::byte> secret;  ///< The server's.
  /// Memory that the server mirrors: one half for allocate(), the other to carry the bytes of
  /// segments that lie elsewhere, and so twice the largest object that such segments can hold. The
  /// server gives at most what it is configured to.
  std::uint64_t window_bytes = 1ULL << 30;
  std::chrono::milliseconds connect_time{2000};  ///< Longest that connecting takes, all of it.
  std::chrono::milliseconds answer_time{10000};  ///< Longest silence while an answer is awaited.
  std::chrono::milliseconds retry_after{1000};   ///< After a failed attempt, calls fail at once.
  std::chrono::milliseconds patience{0};         ///< How long a server's restart is waited for.
  std::string transports;  ///< As in UCX_TLS; empty: what the environment says.
};

/// A store that a RemoteServer serves. kNoDaemon, kDenied, kBadAbi, kOutOfMemory with a reason.
///
/// It is used like a daemon's (ObjectStore::connect), alone or as the lowest tier of a stack. When
/// the server dies or is silent for longer than answer_time, jobs in flight end with kAborted and
/// leases are gone; the next call connects again and opens the namespaces again, or ends with
/// kNoDaemon. register_memory() is kUnsupported: bytes outside of allocate()'s memory are carried.
Status connect_remote(const RemoteStoreOptions& options, std::unique_ptr<ObjectStore>* store,
                      std::string* reason = nullptr);

}  // namespace nearkv
