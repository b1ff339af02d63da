// Rows of a pool where they lie.
#include <string>
#include <vector>

#include "nearkv/in_place.hpp"
#include "page/page_view.hpp"
#include "pool/pool_access.hpp"
#include "pool/pool_impl.hpp"

namespace nearkv {
namespace {

/// kOk, or what is wrong with the rows of a page.
Status look_at(const Window& window, const nkv_page_entry& entry, bool with_values,
               RowsOfPage* rows) {
  PageView view;
  Status status = view.open(window, entry, HeaderDepth::kRows);
  if (status != Status::kOk) return status;
  const nkv_page_header& header = view.header();
  if (header.k_form != NKV_ROW_FORM_RAW || (with_values && header.v_form != NKV_ROW_FORM_RAW)) {
    return Status::kBadPage;
  }
  status = view.verify(NKV_PAGE_ARRAY_K_ROWS);
  if (status != Status::kOk) return status;
  rows->keys = view.bytes(NKV_PAGE_ARRAY_K_ROWS);
  if (!with_values) return Status::kOk;
  rows->values = view.bytes(NKV_PAGE_ARRAY_V_ROWS);
  return view.verify(NKV_PAGE_ARRAY_V_ROWS);
}

}  // namespace

Status Pool::Impl::rows_in_place(std::uint64_t id, std::uint16_t layer, std::uint16_t kv_head,
                                 std::vector<RowsOfPage>* pages) {
  const std::string what = "looking at sequence " + std::to_string(id) + ", layer " +
                           std::to_string(layer) + ", KV head " + std::to_string(kv_head);
  const ModelShape& shape = options_.shape;
  const bool with_values = shape.v_form != NKV_ROW_FORM_NONE;
  if (shape.k_form != NKV_ROW_FORM_RAW || (with_values && shape.v_form != NKV_ROW_FORM_RAW)) {
    return fail(Status::kUnsupported, what + ": make the pool with k_form and v_form RAW");
  }
  const HeadList* const list = find_head(id, layer, kv_head);
  if (list == nullptr) return fail(Status::kNotFound, what);
  const Window window(memory_, kTenant, &pool_->persistence());
  std::vector<RowsOfPage> found(list->entries.size());
  for (std::size_t page = 0; page < found.size(); ++page) {
    const Status status = look_at(window, list->entries[page], with_values, &found[page]);
    if (status != Status::kOk) {
      return fail(status, what + ", token " + std::to_string(page * NKV_PAGE_TOKENS));
    }
  }
  *pages = std::move(found);
  return Status::kOk;
}

Status PoolAccess::rows_in_place(Pool& pool, std::uint64_t sequence, std::uint16_t layer,
                                 std::uint16_t kv_head, std::vector<RowsOfPage>* pages) {
  Pool::Impl& impl = *pool.impl_;
  return impl.settle([&] { return impl.rows_in_place(sequence, layer, kv_head, pages); });
}

Status rows_in_place(Pool& pool, std::uint64_t sequence, std::uint16_t layer, std::uint16_t kv_head,
                     std::vector<RowsOfPage>* pages) {
  return PoolAccess::rows_in_place(pool, sequence, layer, kv_head, pages);
}

}  // namespace nearkv
