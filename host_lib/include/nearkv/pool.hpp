// Sequences of KV pages in a device's memory: what an engine talks to.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nearkv/api.h"
#include "nearkv/device.hpp"
#include "nearkv/status.hpp"
#include "nkv_abi.h"

namespace nearkv {

/// What all sequences of a pool look like.
struct ModelShape {
  std::uint16_t layers = 1;
  std::uint16_t kv_heads = 1;
  std::uint16_t head_dim = 128;
  std::uint16_t value_dim = 128;
  std::uint8_t dtype = NKV_DTYPE_BF16;
  std::uint8_t k_form = NKV_ROW_FORM_DELTA4;  ///< RAW where dtype is not BF16.
  std::uint8_t v_form = NKV_ROW_FORM_DELTA4;  ///< NONE: values are the leading key channels (MLA).

  friend bool operator==(const ModelShape&, const ModelShape&) = default;
};

/// Rows of new tokens of one layer, in host memory: token t of head h starts at
/// first + t * token_stride_bytes + h * head_stride_bytes.
struct HostRows {
  const std::byte* first = nullptr;
  std::size_t token_stride_bytes = 0;
  std::size_t head_stride_bytes = 0;
};

/// What is made of compressed pages.
enum class ColdPages : std::uint8_t {
  kRefuse,  ///< The call fails with kColdPage.
  kSkip,    ///< They are left out, as if their tokens were not there.
  /// They are decoded near the data for this call, a run at a time, and stay compressed. Beside
  /// them BOUNDED reads dense, whatever its byte_cap: the errors of parts do not tell that of the
  /// whole.
  kDecode,
};

/// Of fewer visible tokens a pool reads all, whatever approximate mode is asked for: reading a part
/// of them in rounds costs more than it saves.
inline constexpr std::uint32_t kLeastApproximateTokens = 2048;

/// Which attention a caller wants; defaults are dense and exact.
///
/// BOUNDED and TAIL read codes, so they need pages that have some (Pool::Options::codes). BOUNDED
/// is the mode to take for less than all bytes: it keeps the error that was asked for. Below
/// kLeastApproximateTokens visible tokens both are DENSE.
struct AttendOptions {
  float scale = 1;
  float soft_cap = 0;        ///< 0: none.
  std::uint32_t tokens = 0;  ///< Causal limit; 0: all of the sequence.
  std::uint32_t window = 0;  ///< Sliding window; 0: none.
  std::uint8_t sinks = 0;    ///< First tokens that the window does not hide.
  std::uint8_t mode = NKV_ATTEND_MODE_DENSE;
  std::uint16_t top_k = 64;   ///< TAIL.
  float error = 0.05F;        ///< BOUNDED: of a row's output, relative to it.
  std::uint8_t byte_cap = 0;  ///< BOUNDED.
  std::uint8_t z16 = 0;       ///< BOUNDED: standard deviations, in sixteenths; 0: the usual.
  /// BOUNDED and TAIL only while that is faster than DENSE, as this pool's calls of the layer have
  /// taken: both are tried first, and the slower one now and then.
  bool if_faster = false;
  /// Where any are cold, all tokens must be visible but for those skipped: no `tokens`, no
  /// `window`.
  ColdPages cold = ColdPages::kRefuse;
};

/// One (layer, KV head) of one sequence with the query rows that attend to it.
struct AttendRequest {
  std::uint64_t sequence = 0;
  std::uint16_t layer = 0;
  std::uint16_t kv_head = 0;
  std::uint8_t query_dtype = NKV_DTYPE_BF16;
  std::uint16_t rows = 1;            ///< Query heads of the KV head times new tokens.
  std::span<const std::byte> query;  ///< [rows][head_dim].
  std::span<float> output;           ///< [rows][value_dim].
  std::span<float> lse;              ///< [rows], natural; -inf where nothing is visible.
  std::span<float> bound;            ///< [rows], or empty.
  Status* status = nullptr;          ///< Or null: what has become of this request.
};

/// What near-data work cost.
struct NearStats {
  std::uint64_t commands = 0;
  std::uint64_t link_to_device_bytes = 0;    ///< Commands, queries, rows written.
  std::uint64_t link_from_device_bytes = 0;  ///< Completions and results.
  std::uint64_t stream_bytes = 0;            ///< Read near the data, by stage.
  std::uint64_t refine_bytes = 0;
  std::uint64_t exact_bytes = 0;
  std::uint64_t value_bytes = 0;
  std::uint64_t device_ticks = 0;
  std::uint32_t nonfinite = 0;  ///< Commands that left tokens out for a NaN or infinity in a key.
  std::uint32_t dense_fallbacks = 0;  ///< TAIL and BOUNDED commands that read dense.
};

struct PoolUsage {
  std::uint64_t total_bytes = 0;
  std::uint64_t page_bytes = 0;  ///< Held by pages, shared ones counted once.
  std::uint64_t pages = 0;
  std::uint64_t sequences = 0;
  std::uint64_t damaged_pages = 0;  ///< That open() found: gone, with what followed in sequences.
  std::chrono::nanoseconds oldest_check{};  ///< As Device::oldest_check().
};

/// KV pages of many sequences on one device.
///
/// Tokens come in whole pages of 64; a sequence's open page stays with the engine. Whatever a call
/// has acknowledged with kOk is found again by open(): on a pool over a file after the process died
/// at whatever point, on a DAX device also after the power failed. Of a call that was not
/// acknowledged open() finds all or nothing, but of append() and transcode() it may find the first
/// pages.
///
/// A call whose commands do not end in time is kTimeout, and others may follow. If the device does
/// not let go of those commands either, or was reset, all further calls fail likewise until the
/// pool is opened anew; last_error() says so.
///
/// Thread safety: all calls; they run one at a time.
class NEARKV_API Pool {
 public:
  struct Options {
    ModelShape shape;
    std::uint32_t max_sequences = 1024;
    std::uint32_t max_objects = 0;     ///< Of the object store in the same memory; 0: none.
    std::uint32_t max_namespaces = 0;  ///< Of its keys.
    std::uint64_t staging_bytes = 0;   ///< For rows and queries on their way; 0: chosen by size.
    std::uint64_t memory_bytes = 0;    ///< Of the device's memory, from its start, the rest being
                                       ///< others'; 0: all of it. At most 1 TiB.
    /// Whether append() gives pages codes, a short form of their rows by which approximate modes
    /// read a part of the rows. Codes add about a quarter of a bf16 page's bytes, and a core makes
    /// them of some 2 GB of rows a second, so a pool has none unless it is to be read
    /// approximately. Needs a device with feature CODES. No part of the pool's shape: pages with
    /// codes and without lie in one pool, and of those without all rows are read.
    bool codes = false;
    /// Longest wait for one batch of commands, and then, for 1 to 20 seconds, for the device to let
    /// go of what it is at.
    std::chrono::milliseconds timeout{60000};
  };

  /// Formats the device's memory; whatever it held is lost. kBadArgument if the shape or sizes make
  /// no sense, kPoolFull if the memory is too small, kUnsupported for codes on a device that has
  /// none; `reason` says which.
  static Status create(std::shared_ptr<Device> device, const Options& options,
                       std::unique_ptr<Pool>* pool, std::string* reason = nullptr);

  /// Takes up what create() and earlier work left. kBadPool if the memory holds none, or one of
  /// another shape or version; kUnsupported as create().
  static Status open(std::shared_ptr<Device> device, const Options& options,
                     std::unique_ptr<Pool>* pool, std::string* reason = nullptr);

  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool();

  [[nodiscard]] const ModelShape& shape() const;

  /// Options::codes.
  [[nodiscard]] bool has_codes() const;

  /// Says by what the channels of one (layer, KV head)'s keys are multiplied before they are coded:
  /// 2^(gain/16) each, `gains` [head_dim]. Good gains are 16 * log2 of sqrt(rms of the queries /
  /// rms of what keys differ by from their page's mean), from some hundred tokens of any text;
  /// without them all are 0, the answers as good, and the bytes read more, for some models several
  /// times as many. All sequences have one set, which pages keep: it can be replaced until the
  /// first page with codes was appended, by whichever sequence, and open() finds it again in the
  /// pages. kExists if there are pages with others already; kBadArgument in a pool without codes,
  /// or for what is no (layer, KV head) or not [head_dim].
  Status set_gains(std::uint16_t layer, std::uint16_t kv_head, std::span<const std::int8_t> gains);

  /// The gains of one (layer, KV head), those of set_gains() or of its pages. kNotFound as long as
  /// nobody has set any and no page has them.
  Status gains(std::uint16_t layer, std::uint16_t kv_head, std::vector<std::int8_t>* gains) const;

  /// kExists, also for the number of a dropped sequence while forks share its pages, or kPoolFull
  /// if there are max_sequences.
  Status create_sequence(std::uint64_t sequence);

  /// Makes `child` share the first `tokens` tokens (whole pages) of `parent` in all layers. No page
  /// is copied; both may then append. kNotFound, kExists, kBadArgument.
  Status fork(std::uint64_t parent, std::uint64_t child, std::uint32_t tokens);

  /// Forgets a sequence; its pages are freed once no fork shares them.
  Status drop(std::uint64_t sequence);

  /// Adds `tokens` tokens, a multiple of 64, to one layer, all KV heads. kOk means that they are in
  /// the pool and stay there; on any error nothing has changed. kPoolFull, kNotFound, kBadArgument.
  Status append(std::uint64_t sequence, std::uint16_t layer, const HostRows& keys,
                const HostRows& values, std::uint32_t tokens);

  /// Tokens of a layer: those that every KV head has. kNotFound.
  Status tokens(std::uint64_t sequence, std::uint16_t layer, std::uint32_t* tokens) const;

  /// Where in the device's memory the entries of one (layer, KV head) stand, for commands on a
  /// queue of somebody else's whose window is all of that memory, and how many tokens they are.
  /// Holds until the sequence, or one that shares its pages, is changed. kNotFound.
  Status page_list(std::uint64_t sequence, std::uint16_t layer, std::uint16_t kv_head,
                   std::uint64_t* address, std::uint32_t* tokens) const;

  /// Runs a batch; requests go to the device together. Each fails for itself: beside one whose page
  /// is damaged, or whose sequence is not there, all others are answered, as each one's `status`
  /// says. Returns kOk if all are, else the first error, which last_error() is about. Outputs of a
  /// request that failed may have been written in part.
  Status attend(std::span<const AttendRequest> requests, const AttendOptions& options);

  /// Best tokens of one (layer, KV head) per query row: ids and scores [rows][top_k], -1 and -inf
  /// beyond counts[row]. INDEXER ranks by the sum over rows of weight * max(q k, 0), one list for
  /// all rows, and takes keys of form RAW. STATISTICAL reads codes, as TAIL does, and is FULL below
  /// kLeastApproximateTokens visible tokens.
  struct TopKRequest {
    std::uint64_t sequence = 0;
    std::uint16_t layer = 0;
    std::uint16_t kv_head = 0;
    std::uint8_t query_dtype = NKV_DTYPE_BF16;
    std::uint16_t rows = 1;
    std::uint16_t top_k = 64;
    std::uint8_t mode = NKV_SELECT_FULL;
    std::uint8_t z16 = 0;  ///< STATISTICAL: standard deviations, in sixteenths; 0: the usual.
    float scale = 1;
    std::uint32_t tokens = 0;  ///< As in AttendOptions.
    std::uint32_t window = 0;
    std::uint8_t sinks = 0;
    ColdPages cold = ColdPages::kRefuse;  ///< As in AttendOptions.
    std::span<const std::byte> query;
    std::span<const float> weights;  ///< INDEXER: [rows]; empty otherwise.
    std::span<std::uint32_t> ids;
    std::span<float> scores;
    std::span<std::uint32_t> counts;
  };
  Status top_k(const TopKRequest& request);

  /// K and V rows of chosen tokens, in the pool's dtype, [ids.size()][dim]. An empty span is not
  /// wanted.
  Status gather(std::uint64_t sequence, std::uint16_t layer, std::uint16_t kv_head,
                std::span<const std::uint32_t> ids, std::span<std::byte> keys,
                std::span<std::byte> values);

  /// Rows [first, first + count) as gather() gives them.
  Status read(std::uint64_t sequence, std::uint16_t layer, std::uint16_t kv_head,
              std::uint32_t first, std::uint32_t count, std::span<std::byte> keys,
              std::span<std::byte> values);

  /// Rewrites a sequence's pages, shared ones included, in a codec of the contract: cools them, or,
  /// with NKV_CODEC_NONE, warms them. A compressed page cannot be read or attended to (kColdPage;
  /// but see ColdPages); all else can be done with its sequence. usage() tells what it saves. Every
  /// page is always whole; on an error those done so far stay done. kBadPage: the codec does not
  /// take the rows. kUnsupported: the device does not offer the codec, or that of a page (register
  /// CODECS). kPoolFull: slots of one size share a slab, so a pool needs free slabs to cool into.
  Status transcode(std::uint64_t sequence, std::uint8_t codec);

  /// The same of chosen pages of one (layer, KV head), by number; `moved` counts those that were
  /// rewritten. A page that a fork shares is warmed, but not cooled, which would take it from the
  /// fork; one that is in the codec already stays. kBadArgument for a page that there is not.
  Status transcode(std::uint64_t sequence, std::uint16_t layer, std::uint16_t kv_head,
                   std::span<const std::uint32_t> pages, std::uint8_t codec, std::uint32_t* moved);

  /// The codec of each page of one (layer, KV head). kNotFound.
  Status codecs(std::uint64_t sequence, std::uint16_t layer, std::uint16_t kv_head,
                std::vector<std::uint8_t>* codecs) const;

  /// Verifies every checksum of a sequence. kCorrupt names the page in last_error().
  Status scrub(std::uint64_t sequence, std::uint64_t* pages);

  /// A line about the last call that failed: sequence, layer, head, token, and what to do.
  [[nodiscard]] std::string last_error() const;

  [[nodiscard]] NearStats stats() const;
  void reset_stats();
  [[nodiscard]] PoolUsage usage() const;

 private:
  friend struct PoolAccess;
  class Impl;
  explicit Pool(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace nearkv
