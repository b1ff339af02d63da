// A part of a job, as it goes through the window.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/client/client_memory.hpp"
#include "nearkv/object_store.hpp"
#include "nkv_abi.h"

namespace nearkv {

/// Items [first, first + count) of a job, and the room that they take.
struct Piece {
  std::size_t first = 0;
  std::size_t count = 0;
  std::uint64_t segments = 0;
  std::uint64_t request_bytes = 0;
  std::uint64_t result_bytes = 0;
  std::uint64_t carried_bytes = 0;  ///< Of segments in no region.
  bool has_regions = false;         ///< The daemon touches the caller's own memory.
};

/// As many items from `first` on as make a good piece: at least one, if there is one.
[[nodiscard]] Piece plan_piece(const Job& job, std::size_t first, const ClientMemory& memory);

/// Writes a piece's request to `request` and, for kSet, its bytes to `carried`, which begins at
/// `carried_at` of the carrier. Fills the submission but for tag and places.
void write_piece(const Job& job, const Piece& piece, const ClientMemory& memory,
                 std::span<std::byte> request, std::span<std::byte> carried,
                 std::uint64_t carried_at, nkv_daemon_submission* submission);

/// Takes a piece's results and, for kGet, its bytes from where write_piece() had them put.
void read_piece(const Job& job, const Piece& piece, const ClientMemory& memory,
                std::span<const std::byte> result, std::span<const std::byte> carried,
                JobResult* to);

}  // namespace nearkv
