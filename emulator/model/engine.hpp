// The command decoder: 64 bytes in, an outcome out.
#ifndef NEARKV_MODEL_ENGINE_HPP_
#define NEARKV_MODEL_ENGINE_HPP_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "domain.hpp"
#include "nearkv/codec.hpp"
#include "outcome.hpp"

namespace nearkv::model {

inline constexpr size_t kCommandBytes = 64;

/// A command, copied out of its ring: what the host writes there later has no effect on it.
using Command = std::array<std::byte, kCommandBytes>;

/// What the FEATURES register says.
inline constexpr uint64_t kFeatures =
    NKV_FEATURE_INDEXER | NKV_FEATURE_TRANSCODE | NKV_FEATURE_CODE_PAGES | NKV_FEATURE_CODES;

/// What the CODECS register says: all of them, both ways.
inline constexpr uint64_t kCodecs =
    kCodecNumbers * (1ULL << NKV_REG_CODECS_BUILT_SHIFT | 1ULL << NKV_REG_CODECS_READ_SHIFT);

/// Opcode and tag stand at the same place in every command.
uint8_t opcode_of(const Command& command);
uint16_t tag_of(const Command& command);

/// Executes a command. Any 64 bytes end in a status of the contract; only the ranges that the
/// command names as its results are written, and nothing unless it ends in OK, or in the pages
/// that its count says were done.
Outcome execute(const Domain& domain, const Command& command);

/// How a card executes: as execute() promises. A device that has other ways to the same results for
/// some commands brings its own, and leaves the others to execute().
using Executor = std::function<Outcome(const Domain&, const Command&)>;

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_ENGINE_HPP_
