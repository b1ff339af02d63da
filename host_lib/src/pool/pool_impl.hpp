// Inside a pool: sequences, their page lists, and the queue that serves them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attend/code_speed.hpp"
#include "edge.hpp"
#include "forks.hpp"
#include "nearkv/in_place.hpp"
#include "nearkv/pool.hpp"
#include "nearkv/queue.hpp"
#include "pool/command_batch.hpp"
#include "pool/list_allocator.hpp"
#include "pool/pool_memory.hpp"
#include "pool/sequence_table.hpp"
#include "pool/slab_allocator.hpp"

namespace nearkv {

/// Pages of one (layer, KV head), and their copy in device memory that commands name.
struct HeadList {
  std::vector<nkv_page_entry> entries;
  std::uint64_t address = 0;         ///< Of the copy.
  std::uint64_t capacity_bytes = 0;  ///< Room there; 0: none yet.
};

/// Room for a list; 0 bytes: none.
struct ListBlock {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

/// What the keys of one (layer, KV head) are multiplied by before they are coded.
struct HeadGains {
  std::vector<std::int8_t> gains;  ///< [head_dim]; empty: nobody has set any.
  bool are_kept = false;           ///< In pages.
};

struct Sequence {
  std::size_t record = 0;  ///< Index in the sequence table.
  std::uint64_t parent = 0;
  std::uint32_t fork_tokens = 0;
  bool dropped = false;         ///< Kept only while forks share its pages.
  std::vector<HeadList> heads;  ///< [layers][kv_heads].
};

/// Whether a device makes codes and reads by them.
[[nodiscard]] inline bool offers_codes(Device& device) {
  return (device.read_csr(NKV_REG_FEATURES) & NKV_FEATURE_CODES) != 0;
}

/// One (layer, KV head) of a sequence, for last_error().
[[nodiscard]] std::string place(std::uint64_t sequence, std::uint16_t layer, std::uint16_t kv_head);

class Pool::Impl {
 public:
  Impl(std::shared_ptr<Device> device, const Options& options, const PoolPlan& plan,
       std::shared_ptr<PoolMemory> pool);

  /// Opens the queue. Called once, before anything else.
  Status start(std::string* reason);

  /// Rebuilds all sequences from the sequence table and the page headers. Called once, after
  /// start().
  void recover();

  /// The library's edge, one call at a time: as at_edge(), and kNoDevice once the device has gone,
  /// whatever `body` made of the memory that stands in for it. All calls below go through it.
  /// kForked in another process than the one that opened the pool, of which nothing is touched.
  template <typename Body>
  Status settle(Body&& body) noexcept {
    if (!is_here()) return Status::kForked;
    return at_edge([&] {
      const std::scoped_lock lock(mutex_);
      const Status status = can_go_on();
      const Status done = status == Status::kOk ? at_edge(body) : status;
      return device_->is_gone() ? fail(Status::kNoDevice, "using the pool's device") : done;
    });
  }

  [[nodiscard]] bool is_here() const { return fork_count() == forks_; }

  Status create_sequence(std::uint64_t id);
  Status fork(std::uint64_t parent, std::uint64_t child, std::uint32_t tokens);
  Status drop(std::uint64_t id);
  Status append(std::uint64_t id, std::uint16_t layer, const HostRows& keys, const HostRows& values,
                std::uint32_t tokens);
  Status tokens(std::uint64_t id, std::uint16_t layer, std::uint32_t* tokens);
  Status page_list(std::uint64_t id, std::uint16_t layer, std::uint16_t kv_head,
                   std::uint64_t* address, std::uint32_t* tokens);
  /// `statuses`: by request, if the call got as far as that.
  Status attend(std::span<const AttendRequest> requests, const AttendOptions& options,
                std::vector<Status>* statuses);
  Status top_k(const TopKRequest& request);
  Status gather(std::uint64_t id, std::uint16_t layer, std::uint16_t kv_head,
                std::span<const std::uint32_t> ids, std::span<std::byte> keys,
                std::span<std::byte> values);
  Status read(std::uint64_t id, std::uint16_t layer, std::uint16_t kv_head, std::uint32_t first,
              std::uint32_t count, std::span<std::byte> keys, std::span<std::byte> values);
  Status rows_in_place(std::uint64_t id, std::uint16_t layer, std::uint16_t kv_head,
                       std::vector<RowsOfPage>* pages);
  Status scrub(std::uint64_t id, std::uint64_t* pages);
  Status transcode(std::uint64_t id, std::uint8_t codec);
  Status transcode(std::uint64_t id, std::uint16_t layer, std::uint16_t kv_head,
                   std::span<const std::uint32_t> pages, std::uint8_t codec, std::uint32_t* moved);
  Status codecs(std::uint64_t id, std::uint16_t layer, std::uint16_t kv_head,
                std::vector<std::uint8_t>* codecs);

  Status set_gains(std::uint16_t layer, std::uint16_t kv_head, std::span<const std::int8_t> gains);
  Status gains(std::uint16_t layer, std::uint16_t kv_head, std::vector<std::int8_t>* gains);

  [[nodiscard]] const ModelShape& shape() const { return options_.shape; }
  [[nodiscard]] bool has_codes() const { return options_.codes; }
  [[nodiscard]] NearStats stats() const;
  void reset_stats();
  [[nodiscard]] PoolUsage usage() const;
  [[nodiscard]] std::string last_error() const;

 private:
  /// A run of new pages of one KV head on its way into the pool.
  struct HeadAppend;
  /// Page entries [layers * kv_heads] of one sequence.
  using Lists = std::vector<std::vector<nkv_page_entry>>;
  /// Per sequence: the pages that say they are its own, by head and number.
  using FoundPages =
      std::map<std::uint64_t, std::map<std::pair<std::size_t, std::size_t>, nkv_page_entry>>;

  static constexpr std::uint16_t kTenant = 0;

  // pool_sequences.cpp
  [[nodiscard]] Sequence* find(std::uint64_t id);
  [[nodiscard]] HeadList* find_head(std::uint64_t id, std::uint16_t layer, std::uint16_t kv_head);
  void write_record(std::uint64_t id, const Sequence& sequence, std::uint32_t state);
  void release_sequence(std::uint64_t id);
  void release_unshared();
  void share(const nkv_page_entry& entry);
  void unshare(const nkv_page_entry& entry);
  /// Finds room for so many more entries of each list, and changes none of them: per list the block
  /// that it is to move to, or an empty one. False if there is no room.
  [[nodiscard]] bool find_room(std::span<const HeadList> lists, std::size_t more,
                               std::vector<ListBlock>* blocks);
  void give_back(std::span<const ListBlock> blocks);
  /// Puts entries behind those of a list, in the block that was found for them.
  void extend_list(HeadList* list, const ListBlock& block, std::span<const nkv_page_entry> entries);
  [[nodiscard]] std::size_t head_count() const {
    return std::size_t{options_.shape.layers} * options_.shape.kv_heads;
  }

  // pool_recovery.cpp
  void take_up_records();
  /// Reads a page's header; whether the page is whole in so many bytes, and of this pool's shape.
  bool inspect(std::uint32_t page, std::uint64_t room_bytes, nkv_page_header* header);
  /// The same of a slot; false also if it has no published page.
  bool read_header(std::uint32_t page, std::uint32_t slot_bytes, nkv_page_header* header);
  [[nodiscard]] FoundPages find_pages();
  /// The lists of a sequence whose parent's are in `complete`.
  Lists rebuild_lists(std::uint64_t id, const FoundPages& found,
                      const std::map<std::uint64_t, Lists>& complete);
  std::map<std::uint64_t, Lists> rebuild_all_lists(const FoundPages& found);
  /// Takes over the lists of a layer's heads; cuts those that there is no room for.
  void recover_layer(std::span<HeadList> heads, std::span<std::vector<nkv_page_entry>> lists);

  // pool_gains.cpp
  [[nodiscard]] HeadGains* find_gains(std::uint16_t layer, std::uint16_t kv_head);
  /// [head_dim]: those that pages of a head get, zeros if none were set.
  [[nodiscard]] std::vector<std::int8_t> gains_of(std::uint16_t layer, std::uint16_t kv_head);
  /// After the first pages of a layer: its gains are theirs from now on.
  void keep_gains(std::uint16_t layer);
  /// Takes the gains of a head from a page that has some and is whole, unless they are known.
  void take_gains(std::size_t head, const nkv_page_entry& entry, const nkv_page_header& header);

  // pool_append.cpp
  /// Where `pages` more of each KV head go; kNotFound, kBadArgument.
  Status find_heads(std::uint64_t id, std::uint16_t layer, std::size_t pages,
                    const std::string& what, std::span<HeadList>* heads);
  /// Finds room for the lists of a layer, as find_room() does. Pages are published before they are
  /// listed: whoever takes up the pool after a crash between the two needs it.
  Status find_list_room(std::span<const HeadList> heads, std::size_t pages, const std::string& what,
                        std::vector<ListBlock>* blocks);
  /// Puts pages behind those of a layer, by head, if `status` is kOk; on any error releases them.
  Status extend_layer(std::span<HeadList> heads, std::span<const ListBlock> blocks,
                      std::span<const std::vector<nkv_page_entry>> entries, Status status);
  Status append_head(const HeadAppend& work, std::size_t begin, std::size_t end, bool raw,
                     std::vector<nkv_page_entry>* entries);
  Status append_staged(const HeadAppend& work, std::size_t begin, std::size_t end, bool raw,
                       std::vector<nkv_page_entry>* entries, std::size_t* overflow);

  /// Size of the pages that append() makes.
  [[nodiscard]] std::uint32_t new_page_bytes(bool raw) const {
    return PoolPlan::page_bytes(options_.shape, raw, options_.codes);
  }

  // pool_attend.cpp
  /// Where a command finds pages in device memory, and how many of their tokens it may see.
  struct PageRun {
    std::uint64_t address = 0;
    std::uint32_t tokens = 0;
  };
  /// Adds the command over the pages that `options` leaves a request.
  Status add_attend(const AttendRequest& request, const AttendOptions& options,
                    std::uint64_t* result);
  Status add_attend_to(const PageRun& pages, const AttendRequest& request,
                       const AttendOptions& options, std::uint64_t* result);
  /// Whether an approximate mode is not worth what is visible of so many tokens. Never on a device
  /// without such modes, which is to say so at whatever length.
  [[nodiscard]] bool are_too_few(std::uint32_t tokens, std::uint32_t window,
                                 std::uint8_t sinks) const;
  /// Tokens that requests see together; 0 if one sees too few, or cannot be answered.
  std::uint64_t tokens_by_codes(std::span<const AttendRequest> requests,
                                const AttendOptions& options);
  class Outcomes;
  /// attend() in the mode that the options say.
  Status attend_so(std::span<const AttendRequest> requests, const AttendOptions& options,
                   std::vector<Status>* statuses);
  /// Runs the commands of requests from number `next` on, as many as fit together, and moves `next`
  /// behind them. An error is that of run_batch(): none of them has an answer.
  Status attend_some(std::span<const AttendRequest> requests, const AttendOptions& options,
                     Outcomes* outcomes, std::size_t* next);
  /// Takes the result of a request's command, or tells why there is none.
  Status settle_attend(const AttendRequest& request, const AttendOptions& options,
                       const nkv_completion& completion, std::uint64_t result);
  void take_result(const AttendRequest& request, std::uint64_t result);

  // pool_query.cpp
  /// What a caller's causal limit means for a list of pages; false if it is beyond it.
  [[nodiscard]] static bool limit_tokens(const HeadList& list, std::uint32_t wanted,
                                         std::uint32_t* tokens);
  /// Adds the command over `pages`, which have these `numbers` in their list (empty: they are all
  /// of it), runs the batch and takes the result.
  Status top_k_of(const PageRun& pages, std::span<const std::uint32_t> numbers,
                  const TopKRequest& request);

  // pool_cold.cpp
  [[nodiscard]] bool has_cold(const HeadList& list) const;
  /// Numbers of a list's compressed pages, or of the others.
  enum class Temperature : std::uint8_t { kWarm, kCold };
  [[nodiscard]] std::vector<std::uint32_t> pages_that_are(Temperature temperature,
                                                          const HeadList& list) const;
  /// kBadArgument for what is none of ColdPages.
  Status check_cold(ColdPages cold, const std::string& what);
  /// Where some pages of a list are cold: makes `pages` the others, whose entries are staged for
  /// that. kBadArgument if a query is limited to some tokens; kQueueFull without room.
  Status warm_pages(const HeadList& list, bool is_limited, const std::string& what, PageRun* pages);
  /// What a list is attended to with. BOUNDED reads dense where cold pages are decoded: bounds are
  /// relative to the output of their own part, of the parts' softmax sums none tells the error, and
  /// so nothing tells that of the whole.
  [[nodiscard]] AttendOptions of_parts(const HeadList& list, const AttendOptions& options) const;
  /// Adds cold pages' part to a result over the others.
  Status add_decoded(const AttendRequest& request, const AttendOptions& options);
  /// Makes ids of a search in the pages `warm` those of the list and, to decode, adds cold pages'
  /// best.
  Status merge_top_k(const HeadList& list, std::span<const std::uint32_t> warm,
                     const TopKRequest& request);
  /// Decodes a list's cold pages to the staging area, of which `beside_bytes` are left for what
  /// `use` does with a run of them: their numbers in the list, and where they are.
  using UseRun = std::function<Status(std::span<const std::uint32_t> numbers, const PageRun&)>;
  Status each_decoded_run(const HeadList& list, std::uint64_t beside_bytes, const std::string& what,
                          const UseRun& use);
  /// Adds the command that puts rows [begin, begin + rows) of a request to `result`.
  using AddRows =
      std::function<Status(std::uint8_t tensor, const HeadList& list, std::uint32_t begin,
                           std::uint32_t rows, std::uint64_t result)>;
  Status copy_rows(std::uint64_t id, std::uint16_t layer, std::uint16_t kv_head,
                   std::uint32_t count, std::span<std::byte> keys, std::span<std::byte> values,
                   const AddRows& add);

  // pool_transcode.cpp
  /// Pages in another codec in the staging area.
  struct Staged {
    std::uint64_t list = 0;  ///< Of their entries, in device memory.
    std::vector<nkv_page_entry> entries;
    std::vector<std::uint32_t> sizes;
  };
  /// How many pages fit the staging area together, with `beside_bytes` to spare; at least one.
  [[nodiscard]] std::size_t pages_staged_together(std::uint64_t beside_bytes) const;
  /// Transcodes pages that have these `numbers` in their list.
  Status stage_transcoded(const HeadList& list, std::span<const std::uint32_t> numbers,
                          std::uint8_t codec, const std::string& what, Staged* staged);
  /// Copies staged pages, whose entries are at `list` and which have these `numbers` in it, to the
  /// places that `entries` name; COPY verifies each, and publishes it as durably as APPEND does.
  Status copy_staged(std::uint64_t list, const std::string& what,
                     std::span<const std::uint32_t> numbers, std::vector<nkv_page_entry>* entries);
  [[nodiscard]] std::uint8_t codec_of(const nkv_page_entry& entry) const;
  /// kUnsupported if the device builds no pages of a codec, kBadArgument if there is none.
  Status check_built(std::uint8_t codec, const std::string& what);
  /// kUnsupported if the device does not read the codec of one of the pages.
  Status check_readable(const HeadList& list, std::span<const std::uint32_t> numbers,
                        const std::string& what);
  /// Moves those of the pages of one (layer, KV head) that are in another codec.
  Status transcode_pages(std::size_t head, std::span<const std::uint32_t> pages, std::uint8_t codec,
                         const std::string& what, Sequence* sequence, std::uint32_t* moved);
  /// Moves pages of one (layer, KV head), all of them or none.
  Status transcode_run(std::size_t head, std::span<const std::uint32_t> pages, std::uint8_t codec,
                       const std::string& what, Sequence* sequence);
  /// Puts `entry` where lists name `old_page`, and frees that.
  void replace_page(std::size_t head, std::size_t index, std::uint32_t old_page,
                    const nkv_page_entry& entry, std::uint8_t codec);

  /// Runs the batch. On an error nothing of it is in flight any more, or no call can_go_on().
  Status run_batch();
  /// Stops the queue, and starts it.
  Status open_queue();
  /// What ended the last batch of commands, if the device may still be at it; else kOk.
  Status can_go_on();
  /// Frees the slot of a page that no list names, unless the device may still write it.
  void give_up(std::uint32_t page);
  /// Makes last_error() say what was done, and what to do: what the status says of itself, or
  /// `to_do`.
  Status fail(Status status, const std::string& what);
  Status fail(Status status, const std::string& what, const std::string& to_do);
  /// `numbers`: of the command's pages in their list; empty: its pages are all of that.
  Status fail_completion(const nkv_completion& completion, const std::string& what,
                         std::span<const std::uint32_t> numbers = {});

  std::shared_ptr<Device> device_;
  Options options_;
  PoolPlan plan_;
  std::shared_ptr<PoolMemory> pool_;
  std::span<std::byte> memory_;
  std::unique_ptr<Queue> queue_;
  NearStats stats_;
  std::unique_ptr<CommandBatch> batch_;
  std::vector<std::pair<std::size_t, std::uint64_t>> commands_;  ///< Of a batch: request, result.
  Status unfinished_ = Status::kOk;  ///< How a batch ended of which something may be in flight.
  SlabAllocator slabs_;
  ListAllocator lists_;
  std::map<std::uint64_t, Sequence> sequences_;
  std::vector<HeadGains> gains_;                  ///< [layers][kv_heads].
  std::vector<std::array<CodeSpeed, 2>> speeds_;  ///< By layer: of BOUNDED, and of TAIL.
  SequenceTable table_;
  std::uint64_t damaged_pages_ = 0;  ///< Found by recover().
  std::map<std::uint32_t, std::uint32_t>
      shares_;                                  ///< Per page: lists that hold it, if more than one.
  std::map<std::uint32_t, std::uint8_t> cold_;  ///< Per compressed page: its codec.
  const std::uint64_t forks_ = fork_count();
  mutable std::mutex mutex_;
  std::string last_error_;
};

}  // namespace nearkv
