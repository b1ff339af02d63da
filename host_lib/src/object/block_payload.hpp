// Payload in a file of blocks, past the page cache: the NVMe tier.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "media/block_file.hpp"
#include "object/payload.hpp"

namespace nearkv {

/// Every object starts at a block, so objects are staged in aligned memory and go to the medium in
/// large transfers, many in flight. Each caller has a lane of its own: an open file and staging.
class BlockPayload final : public Payload {
 public:
  static constexpr std::size_t kStagingBytes = std::size_t{4} << 20;

  /// `options` name an existing file. Checks that it opens; `reason` as BlockFile's.
  static Status open(const BlockFileOptions& options, std::unique_ptr<BlockPayload>* payload,
                     std::string* reason);

  Status write(std::span<const Extent> extents, std::uint64_t offset,
               std::span<const PayloadPiece> pieces) override;
  Status wipe(std::span<const Extent> extents) override;
  Status read(std::span<const Extent> extents, std::uint64_t offset, std::uint64_t bytes,
              ByteSink* sink, std::uint32_t* crc) override;

 private:
  struct FreeMemory {
    void operator()(std::byte* memory) const;
  };
  struct Lane {
    Lane() = default;
    Lane(const Lane&) = delete;
    Lane& operator=(const Lane&) = delete;
    /// Leaves staging behind that the medium has not given back.
    ~Lane();

    std::unique_ptr<std::byte[], FreeMemory> staging;
    std::unique_ptr<BlockFile> file;  ///< Its transfers use the staging.
  };

  explicit BlockPayload(BlockFileOptions options) : options_(std::move(options)) {}

  Status make_lane(std::unique_ptr<Lane>* lane, std::string* reason) const;
  Status take_lane(std::unique_ptr<Lane>* lane);
  void give_back(std::unique_ptr<Lane> lane);
  /// Moves staged blocks to or from bytes [offset, offset + bytes) of the extents.
  Status transfer(Lane* lane, BlockOperation operation, std::span<const Extent> extents,
                  std::uint64_t offset, std::uint64_t bytes) const;

  BlockFileOptions options_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Lane>> lanes_;  ///< Free ones.
};

}  // namespace nearkv
