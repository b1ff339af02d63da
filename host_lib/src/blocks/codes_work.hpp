// A layer's work by codes as the members of a team share it out: queries that see many tokens.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "attend/attend.hpp"
#include "attend/query.hpp"
#include "blocks/batch_plan.hpp"
#include "blocks/block_run.hpp"
#include "blocks/code_pages.hpp"
#include "blocks/layer_rows.hpp"
#include "codes/attend_by_codes.hpp"
#include "device/workers.hpp"
#include "nearkv/block_attention.hpp"
#include "page/page_list.hpp"

namespace nearkv {

/// What a member needs for itself. Kept between layers.
struct CodesMember {
  Workers workers{{.are_lent = true}};  ///< Those who help it.
  Query query;
  PageList list;
  std::vector<nkv_page_entry> entries;
  CodeScratch codes;
  std::vector<DenseScratch> dense;   ///< One for each of the workers.
  std::vector<std::uint16_t> order;  ///< kernel_order() of as many channels.
  std::vector<float> row;
  std::vector<float> sums;
  BlockCodes::Counts counts;
};

/// Kept between layers.
struct CodesBuffers {
  std::vector<std::unique_ptr<CodesMember>> members;
  std::vector<UncodedTokens> uncoded;
};

/// The far queries of a layer: first prepare(), by one thread; then encode(), if there is anything
/// to; then attend() and help(). These by some threads at once; attend() returns when nothing is
/// left that nobody has begun, and help() when nothing is left at all.
class CodesWork {
 public:
  /// Throws std::bad_alloc, or std::system_error.
  CodesWork(const BatchPlan& plan, const BlockCache& cache, const BlockAttention& attention,
            const BlockQueries& queries, unsigned members, CodesBuffers* buffers);
  CodesWork(const CodesWork&) = delete;
  CodesWork& operator=(const CodesWork&) = delete;
  /// Adds up what has been counted.
  ~CodesWork();

  /// Codes have to be about all of what far queries see.
  void prepare();
  [[nodiscard]] std::size_t encodings() const { return buffers_.uncoded.size() * heads_; }
  void encode() noexcept;
  void attend() noexcept;
  /// Takes part in what others have begun.
  void help() noexcept;

  /// The first failure of encode() or attend().
  [[nodiscard]] Status status() const { return status_.load(); }

 private:
  Status attend(std::size_t task, CodesMember* member);
  void admit_helpers(std::size_t task, std::size_t tokens, CodesMember* member) const;
  void attend_exactly(const QueryPlace& place, std::size_t head, CodesMember* member);
  void answer(const QueryPlace& place, std::size_t head, const SoftmaxState& state,
              CodesMember* member);
  void fail(Status status);
  /// Each is a far query and a KV head.
  [[nodiscard]] std::size_t tasks() const { return plan_.far().size() * heads_; }

  const BatchPlan& plan_;
  const BlockCache& cache_;
  const BlockAttention& attention_;
  CodesBuffers& buffers_;
  CodePages& pages_;
  LayerRows rows_;
  RunKernel exact_;
  std::size_t heads_;
  unsigned members_;
  std::size_t seen_tokens_ = 0;  ///< By all tasks together.
  std::atomic<std::size_t> next_encoding_{0};
  std::atomic<std::size_t> next_task_{0};
  std::atomic<std::size_t> next_member_{0};
  std::atomic<std::size_t> unanswered_{0};
  std::atomic<Status> status_{Status::kOk};
};

}  // namespace nearkv
