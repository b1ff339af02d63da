// READ and GATHER: stored rows back, exact or as their codes tell them.
#include <array>
#include <optional>
#include <vector>

#include "commands.hpp"
#include "page.hpp"
#include "places.hpp"
#include "rows.hpp"
#include "stored_codes.hpp"

namespace nearkv::model {

namespace {

bool wants_keys(uint8_t tensor) { return tensor != NKV_TENSOR_VALUES; }
bool wants_values(uint8_t tensor) { return tensor != NKV_TENSOR_KEYS; }

// What READ and GATHER ask for, in common.
struct RowRequest {
  std::vector<uint32_t> tokens;
  uint8_t tensor;
  int planes;  // Of the codes; 0: exact.
  uint64_t page_list;
  uint64_t result;
  std::optional<Place> ids;  // GATHER.
};

std::vector<nkv_page_array> used_code_arrays(const RowRequest& request) {
  std::vector<nkv_page_array> arrays;
  for (const CodedTensor tensor : {CodedTensor::kKeys, CodedTensor::kValues}) {
    const bool is_keys = tensor == CodedTensor::kKeys;
    if (!(is_keys ? wants_keys(request.tensor) : wants_values(request.tensor))) continue;
    for (const nkv_page_array array : StoredCodes::arrays(tensor, request.planes)) {
      arrays.push_back(array);
    }
  }
  return arrays;
}

// Arrays that a request uses are verified whole, since it returns what they hold.
std::vector<nkv_page_array> used_arrays(const RowRequest& request, const Page& page) {
  if (request.planes > 0) return used_code_arrays(request);
  std::vector<nkv_page_array> arrays;
  const bool values_are_keys = page.header().v_form == NKV_ROW_FORM_NONE;
  if (wants_keys(request.tensor) || values_are_keys) {
    for (const nkv_page_array array :
         {NKV_PAGE_ARRAY_K_EXPONENTS, NKV_PAGE_ARRAY_K_ROWS, NKV_PAGE_ARRAY_K_EXCEPTIONS}) {
      arrays.push_back(array);
    }
  }
  if (wants_values(request.tensor)) {
    for (const nkv_page_array array :
         {NKV_PAGE_ARRAY_V_EXPONENTS, NKV_PAGE_ARRAY_V_ROWS, NKV_PAGE_ARRAY_V_EXCEPTIONS}) {
      arrays.push_back(array);
    }
  }
  return arrays;
}

// Rows of one request must be alike, or they could not lie one after the other.
bool agree(const nkv_page_header& a, const nkv_page_header& b) {
  return a.dtype == b.dtype && a.head_dim == b.head_dim && a.value_dim == b.value_dim;
}

std::vector<std::byte> coded_row(const Page& page, CodedTensor tensor, uint32_t token, int planes) {
  const StoredCodes codes(page, tensor);
  const auto row = codes.row(token, std::min(planes, codes.form().planes));
  const auto bytes = std::as_bytes(std::span(row));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> returned_key_row(const RowRequest& request, const Page& page,
                                        uint32_t token) {
  if (request.planes > 0) return coded_row(page, CodedTensor::kKeys, token, request.planes);
  return source_key_row(page, token);
}

std::vector<std::byte> returned_value_row(const RowRequest& request, const Page& page,
                                          uint32_t token) {
  if (request.planes > 0) return coded_row(page, CodedTensor::kValues, token, request.planes);
  return source_value_row(page, token);
}

// The pages that a request touches, accepted and verified in list order.
class TouchedPages {
 public:
  Verdict open(const Domain& domain, const RowRequest& request) {
    uint32_t last_token = 0;
    for (const uint32_t token : request.tokens) last_token = std::max(last_token, token);
    const uint64_t count = uint64_t{last_token} / NKV_PAGE_TOKENS + 1;
    const Verdict list = domain.window.check(request.page_list, count * sizeof(nkv_page_entry));
    if (!list.ok()) return list;
    const auto entries = domain.window.load<nkv_page_entry>(request.page_list, count);

    std::vector<bool> is_touched(count);
    for (const uint32_t token : request.tokens) is_touched[token / NKV_PAGE_TOKENS] = true;
    pages_.resize(count);
    for (size_t index = 0; index < count; ++index) {
      if (!is_touched[index]) continue;
      const Verdict verdict = open_page(domain, request, entries[index], index);
      if (!verdict.ok()) return verdict;
    }
    return {};
  }

  [[nodiscard]] const Page& of_token(uint32_t token) const {
    return pages_[token / NKV_PAGE_TOKENS];
  }

  // All that the request reads: touched pages, entries up to the last of them, ids.
  [[nodiscard]] std::vector<Place> places(const RowRequest& request) const {
    std::vector<Place> places = {
        {request.page_list, request.page_list + pages_.size() * sizeof(nkv_page_entry), false}};
    for (const Page& page : pages_) {
      if (page.bytes().empty()) continue;
      places.push_back({page.address(), page.address() + page.bytes().size(), false});
    }
    if (request.ids) places.push_back(*request.ids);
    return places;
  }

 private:
  Verdict open_page(const Domain& domain, const RowRequest& request, const nkv_page_entry& entry,
                    size_t index) {
    Page page;
    const Verdict accepted = Page::accept(domain, entry, index, {}, &page);
    if (!accepted.ok()) return accepted;
    const bool has_values = page.header().value_dim != 0;
    if ((first_ && !agree(*first_, page.header())) ||
        (wants_values(request.tensor) && !has_values) ||
        (request.planes > 0 && !page.has_codes())) {
      return {NKV_STATUS_BAD_PAGE, index};
    }
    for (const nkv_page_array array : used_arrays(request, page)) {
      if (!page.is_intact(array)) return {NKV_STATUS_CORRUPT, index};
    }
    if (request.planes > 0 && page.header().sign_set >= NKV_SIGN_SETS) {
      return {NKV_STATUS_BAD_PAGE, index};
    }
    first_ = page.header();
    pages_[index] = page;
    return {};
  }

  std::vector<Page> pages_;
  std::optional<nkv_page_header> first_;
};

Outcome return_rows(const Domain& domain, const RowRequest& request) {
  TouchedPages pages;
  const Verdict opened = pages.open(domain, request);
  if (!opened.ok()) return failure(opened);

  std::vector<std::byte> keys;
  std::vector<std::byte> values;
  for (const uint32_t token : request.tokens) {
    const Page& page = pages.of_token(token);
    const uint32_t row = token % NKV_PAGE_TOKENS;
    if (wants_keys(request.tensor)) {
      const auto bytes = returned_key_row(request, page, row);
      keys.insert(keys.end(), bytes.begin(), bytes.end());
    }
    if (wants_values(request.tensor)) {
      const auto bytes = returned_value_row(request, page, row);
      values.insert(values.end(), bytes.begin(), bytes.end());
    }
  }
  const uint64_t values_offset = burst_aligned(keys.size());
  const uint64_t end = values.empty() ? keys.size() : values_offset + values.size();
  const Verdict place = domain.window.check(request.result, end);
  if (!place.ok()) return failure(place);
  std::vector<Place> places = pages.places(request);
  places.push_back({request.result, request.result + end, true});
  if (collide(std::move(places))) return failure(bad_field(offsetof(nkv_read_command, result)));
  domain.window.store<std::byte>(request.result, keys);
  domain.window.store<std::byte>(request.result + values_offset, values);
  return {.count = static_cast<uint32_t>(request.tokens.size())};
}

}  // namespace

Outcome read(const Domain& domain, const nkv_read_command& command) {
  Verdict verdict;
  verdict.status = nkv_check_read_command(&command, &verdict.detail);
  if (!verdict.ok()) return failure(verdict);
  const bool from_codes = (command.flags & NKV_READ_FLAG_CODES) != 0;
  if (from_codes != (command.planes > 0)) {
    return failure(bad_field(offsetof(nkv_read_command, planes)));
  }
  if (uint64_t{command.first} + command.count > NKV_MAX_TOKENS) {
    return failure(bad_field(offsetof(nkv_read_command, count)));
  }
  RowRequest request{.tokens = {},
                     .tensor = command.tensor,
                     .planes = command.planes,
                     .page_list = command.page_list,
                     .result = command.result,
                     .ids = std::nullopt};
  for (uint32_t i = 0; i < command.count; ++i) request.tokens.push_back(command.first + i);
  return return_rows(domain, request);
}

Outcome gather(const Domain& domain, const nkv_gather_command& command) {
  Verdict verdict;
  verdict.status = nkv_check_gather_command(&command, &verdict.detail);
  if (!verdict.ok()) return failure(verdict);
  verdict = domain.window.check(command.ids, uint64_t{command.count} * sizeof(uint32_t));
  if (!verdict.ok()) return failure(verdict);
  const uint64_t ids_end = command.ids + uint64_t{command.count} * sizeof(uint32_t);
  RowRequest request{.tokens = domain.window.load<uint32_t>(command.ids, command.count),
                     .tensor = command.tensor,
                     .planes = 0,
                     .page_list = command.page_list,
                     .result = command.result,
                     .ids = Place{command.ids, ids_end, false}};
  for (const uint32_t token : request.tokens) {
    if (token >= command.tokens) return failure(bad_field(offsetof(nkv_gather_command, ids)));
  }
  return return_rows(domain, request);
}

}  // namespace nearkv::model
