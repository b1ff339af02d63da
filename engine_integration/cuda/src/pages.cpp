// Pages of the C API.
#include "handle.hpp"
#include "kernels/digests.hpp"
#include "kernels/page_planes.hpp"
#include "kernels/page_rows.hpp"

namespace nearkv::cuda {
namespace {

constexpr std::uint64_t kWord = sizeof(Words4);

nkv_page_shape shape_of(const nearkv_cuda_pages& pages) {
  nkv_page_shape shape{};
  shape.k_form = pages.k_form;
  shape.v_form = pages.v_form;
  shape.dtype = pages.dtype;
  shape.flags = pages.flags;
  shape.head_dim = pages.head_dim;
  shape.value_dim = pages.value_dim;
  return shape;
}

PagePlaces places_of(const nearkv_cuda_pages& pages, bool raw) {
  nkv_page_shape shape = shape_of(pages);
  if (raw) {
    shape.k_form = NKV_ROW_FORM_RAW;
    if (shape.v_form != NKV_ROW_FORM_NONE) shape.v_form = NKV_ROW_FORM_RAW;
  }
  struct nkv_page_layout layout{};
  nkv_lay_out_page(&shape, &layout);
  PagePlaces places;
  places.k_form = shape.k_form;
  places.v_form = shape.v_form;
  places.keys = {layout.offset[NKV_PAGE_ARRAY_K_ROWS], layout.offset[NKV_PAGE_ARRAY_K_EXPONENTS],
                 layout.offset[NKV_PAGE_ARRAY_K_EXCEPTIONS]};
  places.values = {layout.offset[NKV_PAGE_ARRAY_V_ROWS], layout.offset[NKV_PAGE_ARRAY_V_EXPONENTS],
                   layout.offset[NKV_PAGE_ARRAY_V_EXCEPTIONS]};
  places.digest = layout.offset[NKV_PAGE_ARRAY_K_DIGEST];
  for (unsigned plane = 0; plane < NKV_KEY_PLANES; ++plane) {
    places.planes[plane] = layout.offset[NKV_PAGE_ARRAY_K_PLANE0 + plane];
  }
  places.total_bytes = layout.total_bytes;
  return places;
}

/// Checks a shape as a pool does, and finds its places.
Outcome open(const Machine& machine, const nearkv_cuda_pages& pages, Pages* opened) {
  if (Outcome shape = check_shape(shape_of(pages)); !shape.ok()) return shape;
  const Pointer pointers[] = {{pages.window, "window"},
                              {pages.entries, "entries", sizeof(nkv_page_entry)}};
  if (Outcome outcome = check(machine, pointers); !outcome.ok()) return outcome;
  opened->window = static_cast<const std::byte*>(pages.window);
  opened->entries = pages.entries;
  opened->window_bytes = pages.window_bytes;
  opened->count = pages.count;
  opened->head_dim = pages.head_dim;
  opened->value_dim = pages.value_dim;
  opened->tenant = pages.tenant;
  opened->dtype = pages.dtype;
  opened->flags = pages.flags;
  opened->usual = places_of(pages, false);
  opened->raw = places_of(pages, true);
  return {};
}

Outcome check_rows(const Machine& machine, const nearkv_cuda_pages& pages,
                   const nearkv_cuda_page_rows_args& work) {
  if (work.tensor > NKV_TENSOR_VALUES) return refuse("tensor is KEYS or VALUES");
  const std::uint32_t dim = work.tensor == NKV_TENSOR_KEYS ? pages.head_dim : pages.value_dim;
  if (dim == 0) return refuse("these pages have no values");
  const std::uint64_t row_bytes = std::uint64_t{dim} * nkv_element_bytes(pages.dtype);
  if (work.out_row_bytes < row_bytes || work.out_row_bytes % kWord != 0) {
    return refuse("out_row_bytes must hold a row of " + std::to_string(row_bytes) +
                  " bytes and be a multiple of 16");
  }
  const std::uint64_t tokens = std::uint64_t{pages.count} * NKV_PAGE_TOKENS;
  if (work.ids == nullptr && work.rows > tokens)
    return refuse("more rows than the list has tokens");
  const Pointer pointers[] = {{work.ids, "ids", sizeof(std::uint32_t), true},
                              {work.out, "out"},
                              {work.fault, "fault", sizeof(std::uint64_t)}};
  return check(machine, pointers);
}

Outcome check_bounds(const Machine& machine, const nearkv_cuda_bounds_args& work) {
  if (Outcome dim = check_dim(work.head_dim, "head_dim"); !dim.ok()) return dim;
  if (!is_number_dtype(work.query_dtype)) return refuse("queries are BF16, FP16 or FP32");
  const Pointer pointers[] = {{work.query, "query"},
                              {work.digests, "digests"},
                              {work.exponents, "exponents", sizeof(std::int16_t)},
                              {work.bounds, "bounds", sizeof(float)}};
  return check(machine, pointers);
}

}  // namespace
}  // namespace nearkv::cuda

using nearkv::cuda::at_edge;
using nearkv::cuda::Machine;
using nearkv::cuda::Outcome;
using nearkv::cuda::Pages;
using nearkv::cuda::Pointer;

std::uint8_t nearkv_cuda_page_rows(struct nearkv_cuda* gpu, const struct nearkv_cuda_pages* pages,
                                   const struct nearkv_cuda_page_rows_args* work, void* stream) {
  return at_edge(gpu, [&](const Machine& machine) {
    if (work->rows == 0) return Outcome{};
    Pages opened;
    Outcome outcome = nearkv::cuda::open(machine, *pages, &opened);
    if (outcome.ok()) outcome = nearkv::cuda::check_rows(machine, *pages, *work);
    return outcome.ok() ? machine.launch(nearkv::cuda::PageRows(opened, *work), stream) : outcome;
  });
}

std::uint8_t nearkv_cuda_page_planes(struct nearkv_cuda* gpu, const struct nearkv_cuda_pages* pages,
                                     const struct nearkv_cuda_page_planes_args* work,
                                     void* stream) {
  return at_edge(gpu, [&](const Machine& machine) {
    if (pages->count == 0) return Outcome{};
    Pages opened;
    Outcome outcome = nearkv::cuda::open(machine, *pages, &opened);
    if (!outcome.ok()) return outcome;
    if (work->planes == 0 || work->planes > NKV_KEY_PLANES) {
      return nearkv::cuda::refuse("planes is 1 to " + std::to_string(NKV_KEY_PLANES));
    }
    const Pointer pointers[] = {{work->out, "out"}, {work->fault, "fault", sizeof(std::uint64_t)}};
    outcome = nearkv::cuda::check(machine, pointers);
    return outcome.ok() ? machine.launch(nearkv::cuda::PagePlanes(opened, *work), stream) : outcome;
  });
}

std::uint8_t nearkv_cuda_digests(struct nearkv_cuda* gpu, const struct nearkv_cuda_pages* pages,
                                 const struct nearkv_cuda_digests_args* work, void* stream) {
  return at_edge(gpu, [&](const Machine& machine) {
    if (pages->count == 0) return Outcome{};
    Pages opened;
    Outcome outcome = nearkv::cuda::open(machine, *pages, &opened);
    if (!outcome.ok()) return outcome;
    const Pointer pointers[] = {{work->digests, "digests"},
                                {work->exponents, "exponents", sizeof(std::int16_t)},
                                {work->fault, "fault", sizeof(std::uint64_t)}};
    outcome = nearkv::cuda::check(machine, pointers);
    return outcome.ok() ? machine.launch(nearkv::cuda::CollectDigests(opened, *work), stream)
                        : outcome;
  });
}

std::uint8_t nearkv_cuda_bounds(struct nearkv_cuda* gpu, const struct nearkv_cuda_bounds_args* work,
                                void* stream) {
  return at_edge(gpu, [&](const Machine& machine) {
    if (work->rows == 0 || work->pages == 0) return Outcome{};
    Outcome outcome = nearkv::cuda::check_bounds(machine, *work);
    if (!outcome.ok()) return outcome;
    if (work->rows == 1) return machine.launch(nearkv::cuda::Bounds<1>(*work), stream);
    if (work->rows <= 4) return machine.launch(nearkv::cuda::Bounds<4>(*work), stream);
    return machine.launch(nearkv::cuda::Bounds<8>(*work), stream);
  });
}
