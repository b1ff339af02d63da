#include "codec/workspace.hpp"

#include <zstd.h>

#include <new>

namespace nearkv {

CodecWorkspace::CodecWorkspace() noexcept = default;
CodecWorkspace::CodecWorkspace(CodecWorkspace&&) noexcept = default;
CodecWorkspace& CodecWorkspace::operator=(CodecWorkspace&&) noexcept = default;
CodecWorkspace::~CodecWorkspace() = default;

codec::Workspace* CodecWorkspace::get() noexcept {
  if (!workspace_) workspace_.reset(new (std::nothrow) codec::Workspace);
  return workspace_.get();
}

namespace codec {
namespace {

// Level 1: the planes are entropy-coded, matches are rare, and higher levels were measured to gain
// nothing. Sizes stand in the section directory, so the frame says as little as it can.
ZSTD_CCtx* make_encoder() {
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  if (context == nullptr) return nullptr;
  constexpr std::array<std::pair<ZSTD_cParameter, int>, 4> kParameters{{
      {ZSTD_c_compressionLevel, 1},
      {ZSTD_c_contentSizeFlag, 0},
      {ZSTD_c_checksumFlag, 0},
      {ZSTD_c_dictIDFlag, 0},
  }};
  for (const auto& [parameter, value] : kParameters) {
    ZSTD_CCtx_setParameter(context, parameter, value);
  }
  return context;
}

}  // namespace

ZSTD_CCtx_s* Workspace::zstd_encoder() noexcept {
  if (!zstd_encoder_) zstd_encoder_.reset(make_encoder());
  return zstd_encoder_.get();
}

ZSTD_DCtx_s* Workspace::zstd_decoder() noexcept {
  if (!zstd_decoder_) zstd_decoder_.reset(ZSTD_createDCtx());
  return zstd_decoder_.get();
}

void Workspace::ZstdDeleter::operator()(ZSTD_CCtx_s* context) const noexcept {
  ZSTD_freeCCtx(context);
}

void Workspace::ZstdDeleter::operator()(ZSTD_DCtx_s* context) const noexcept {
  ZSTD_freeDCtx(context);
}

}  // namespace codec
}  // namespace nearkv
