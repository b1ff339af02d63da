/* Uses every kind of thing in the contract header. The tests compile this file as C11, as C++20, in
 * a kernel module and for bare-metal RV32: nowhere may there be a warning. */
#include "nkv_abi.h"
#include "nkv_abi.h" /* Twice, as users will. */

struct header_use_commands {
  struct nkv_append_command append;
  struct nkv_attend_command attend;
  struct nkv_topk_command topk;
  struct nkv_read_command read;
  struct nkv_gather_command gather;
  struct nkv_pages_command pages;
};

uint8_t header_use_checkers(const struct header_use_commands* commands, uint64_t* detail);
uint32_t header_use_layout(const struct nkv_page_header* header, struct nkv_page_layout* layout);
const char* header_use_status(const struct nkv_completion* completion, int* error);
uint64_t header_use_registers(uint64_t limits, uint32_t queue);

uint8_t header_use_checkers(const struct header_use_commands* commands, uint64_t* detail) {
  if (nkv_check_append_command(&commands->append, detail) != NKV_STATUS_OK ||
      nkv_check_attend_command(&commands->attend, detail) != NKV_STATUS_OK ||
      nkv_check_topk_command(&commands->topk, detail) != NKV_STATUS_OK ||
      nkv_check_read_command(&commands->read, detail) != NKV_STATUS_OK ||
      nkv_check_gather_command(&commands->gather, detail) != NKV_STATUS_OK) {
    return NKV_STATUS_BAD_FIELD;
  }
  return nkv_check_pages_command(&commands->pages, detail);
}

uint32_t header_use_layout(const struct nkv_page_header* header, struct nkv_page_layout* layout) {
  struct nkv_page_shape shape;
  shape.k_form = header->k_form;
  shape.v_form = header->v_form;
  shape.dtype = header->dtype;
  shape.flags = header->flags & NKV_PAGE_FLAG_KEY_SCALES;
  shape.head_dim = header->head_dim;
  shape.value_dim = header->value_dim;
  nkv_lay_out_page(&shape, layout);
  return layout->total_bytes * NKV_PAGE_TOKENS;
}

const char* header_use_status(const struct nkv_completion* completion, int* error) {
  *error = -nkv_status_errno(completion->status);
  return *error == 0 ? nkv_status_name(completion->status) : nkv_status_message(completion->status);
}

uint64_t header_use_registers(uint64_t limits, uint32_t queue) {
  const uint64_t head_dim =
      (limits & NKV_REG_LIMITS_HEAD_DIM_MASK) >> NKV_REG_LIMITS_HEAD_DIM_SHIFT;
  const uint64_t features = NKV_FEATURE_CODES | NKV_FEATURE_ALL;
  if (!nkv_is_register(NKV_REG_SQ_TAIL(queue))) return 0;
  return head_dim + features + NKV_ABI_ID + NKV_REG_SQ_TAIL(queue) + NKV_REG_MAP_BYTES;
}
