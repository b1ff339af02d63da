// What ATTEND and TOPK read before anything else: the query and the page list.
#ifndef NEARKV_MODEL_SCAN_INPUT_HPP_
#define NEARKV_MODEL_SCAN_INPUT_HPP_

#include <cmath>
#include <cstdint>
#include <vector>

#include "domain.hpp"
#include "page_list.hpp"
#include "query.hpp"

namespace nearkv::model {

/// Query and page list of a command, checked and copied out of memory.
struct ScanInput {
  Query query;
  std::vector<nkv_page_entry> entries;  ///< ceil(tokens / PAGE_TOKENS)
  ListExponents exponents;
  Visibility visibility;
};

/// Bytes of a command's query rows and of its part of the page list.
template <typename Command>
uint64_t query_bytes(const Command& command) {
  return uint64_t{command.group} * command.head_dim * nkv_element_bytes(command.query_dtype);
}

template <typename Command>
uint64_t list_entries(const Command& command) {
  return (uint64_t{command.tokens} + NKV_PAGE_TOKENS - 1) / NKV_PAGE_TOKENS;
}

/// ADDRESS_FAULT unless query and page list lie in the window.
template <typename Command>
Verdict check_scan_addresses(const Domain& domain, const Command& command) {
  const Verdict query = domain.window.check(command.query, query_bytes(command));
  if (!query.ok()) return query;
  return domain.window.check(command.page_list, list_entries(command) * sizeof(nkv_page_entry));
}

/// Reads both, after check_scan_addresses(). BAD_QUERY if the query is not finite.
template <typename Command>
Verdict read_scan_input(const Domain& domain, const Command& command, ScanInput* input) {
  const auto bytes = domain.window.load<std::byte>(command.query, query_bytes(command));
  const Verdict decoded =
      Query::decode(bytes, command.query_dtype, command.group, command.head_dim, &input->query);
  if (!decoded.ok()) return decoded;
  input->entries = domain.window.load<nkv_page_entry>(command.page_list, list_entries(command));
  input->exponents = list_exponents(input->entries);
  input->visibility = {.tokens = command.tokens, .window = command.window, .sinks = command.sinks};
  return {};
}

/// Whether a logit scale can be used: a normal number (subnormals count as zero, section 1).
inline bool is_usable_scale(float scale) { return std::isnormal(scale); }

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_SCAN_INPUT_HPP_
