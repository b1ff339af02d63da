// Building pages, of the C API.
#include "kernels/pack.hpp"

#include "handle.hpp"

namespace nearkv::cuda {
namespace {

Outcome check_rows(const Machine& machine, const nearkv_cuda_rows& rows, const char* name,
                   std::size_t alignment) {
  if (rows.head_bytes % alignment != 0 || rows.token_bytes % alignment != 0) {
    return refuse(std::string(name) + " must lie at multiples of " + std::to_string(alignment) +
                  " bytes, by head and by token");
  }
  const Pointer pointers[] = {{rows.first, name, alignment}};
  return check(machine, pointers);
}

Outcome check_pack(const Machine& machine, const nearkv_cuda_pack_args& work) {
  if (Outcome shape = check_shape(work.shape); !shape.ok()) return shape;
  if (work.tokens % NKV_PAGE_TOKENS != 0) {
    return refuse("tokens is " + std::to_string(work.tokens) + "; pages are of " +
                  std::to_string(NKV_PAGE_TOKENS) + " each");
  }
  Outcome rows = check_rows(machine, work.keys, "keys", sizeof(Words4));
  if (rows.ok() && work.shape.v_form != NKV_ROW_FORM_NONE) {
    rows = check_rows(machine, work.values, "values", sizeof(Words4));
  }
  if (rows.ok() && (work.shape.flags & NKV_PAGE_FLAG_KEY_SCALES) != 0) {
    rows = check_rows(machine, work.key_scales, "key_scales", sizeof(float));
  }
  if (!rows.ok()) return rows;
  const Pointer pointers[] = {{work.window, "window"},
                              {work.entries, "entries", sizeof(nkv_page_entry)},
                              {work.statuses, "statuses", 1}};
  return check(machine, pointers);
}

}  // namespace
}  // namespace nearkv::cuda

std::uint8_t nearkv_cuda_pack(struct nearkv_cuda* gpu, const struct nearkv_cuda_pack_args* work,
                              void* stream) {
  return nearkv::cuda::at_edge(gpu, [&](const nearkv::cuda::Machine& machine) {
    if (work->tokens == 0 || work->kv_heads == 0) return nearkv::cuda::Outcome{};
    nearkv::cuda::Outcome outcome = nearkv::cuda::check_pack(machine, *work);
    if (!outcome.ok()) return outcome;
    struct nkv_page_layout layout{};
    nkv_lay_out_page(&work->shape, &layout);
    return machine.launch(nearkv::cuda::Pack(*work, layout), stream);
  });
}
