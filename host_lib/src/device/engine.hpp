// Executes commands on CPU cores: what stands behind `cpu:`.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "attend/attend.hpp"
#include "codes/attend_by_codes.hpp"
#include "device/workers.hpp"
#include "nkv_abi.h"
#include "page/page_list.hpp"
#include "page/transcode.hpp"
#include "page/window.hpp"

namespace nearkv {

/// Thread safety: one command at a time.
class Engine {
 public:
  explicit Engine(Workers* workers);

  /// Runs one 64-byte command, whatever its bytes, and fills in every field of the completion but
  /// `phase` and `sq_head`. `command` is a private copy: nobody changes it meanwhile.
  void execute(std::span<const std::byte, NKV_COMMAND_BYTES> command, const Window& window,
               nkv_completion* completion);

 private:
  template <typename Command>
  using Handler = Outcome (Engine::*)(const Command&, const Window&, nkv_completion*);

  Outcome dispatch(std::span<const std::byte, NKV_COMMAND_BYTES> command, const Window& window,
                   nkv_completion* completion);

  /// Copies the command out, checks its fields by the contract, and runs it.
  template <typename Command>
  Outcome run(std::span<const std::byte> bytes,
              std::uint8_t (*check)(const Command*, std::uint64_t*), Handler<Command> handler,
              const Window& window, nkv_completion* completion);

  Outcome append(const nkv_append_command& command, const Window& window,
                 nkv_completion* completion);
  Outcome attend(const nkv_attend_command& command, const Window& window,
                 nkv_completion* completion);
  Outcome top_k(const nkv_topk_command& command, const Window& window, nkv_completion* completion);
  Outcome read(const nkv_read_command& command, const Window& window, nkv_completion* completion);
  Outcome gather(const nkv_gather_command& command, const Window& window,
                 nkv_completion* completion);
  /// SCRUB and ERASE.
  Outcome maintain(const nkv_pages_command& command, const Window& window,
                   nkv_completion* completion);
  /// COPY and TRANSCODE.
  Outcome move(const nkv_pages_command& command, const Window& window, nkv_completion* completion);

  Workers* workers_;
  PageList list_;
  Query query_;
  CodeScratch codes_;
  std::vector<DenseScratch> scratch_;
  std::vector<Transcoder> transcoders_;  ///< One a worker.
};

}  // namespace nearkv
