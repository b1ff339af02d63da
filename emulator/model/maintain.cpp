// SCRUB and ERASE: whole pages where they are.
#include <cstring>

#include "commands.hpp"
#include "page.hpp"

namespace nearkv::model {

namespace {

constexpr Acceptance kAnyCodec{.whole_header = true, .any_codec = true};

Verdict check_fields(const Domain& domain, const nkv_pages_command& command) {
  Verdict verdict;
  verdict.status = nkv_check_pages_command(&command, &verdict.detail);
  if (!verdict.ok()) return verdict;
  return domain.window.check(command.source, uint64_t{command.count} * sizeof(nkv_page_entry));
}

// Ends a command after `done` pages.
Outcome stopped(Verdict verdict, uint32_t done) {
  Outcome outcome = failure(verdict);
  outcome.count = done;
  return outcome;
}

}  // namespace

Outcome scrub(const Domain& domain, const nkv_pages_command& command) {
  const Verdict checked = check_fields(domain, command);
  if (!checked.ok()) return failure(checked);
  const auto entries = domain.window.load<nkv_page_entry>(command.source, command.count);
  for (uint32_t index = 0; index < command.count; ++index) {
    Page page;
    const Verdict accepted = Page::accept(domain, entries[index], index, kAnyCodec, &page);
    if (!accepted.ok()) return stopped(accepted, index);
    if (!page.is_intact()) return stopped({NKV_STATUS_CORRUPT, index}, index);
  }
  return {.count = command.count};
}

Outcome erase(const Domain& domain, const nkv_pages_command& command) {
  const Verdict checked = check_fields(domain, command);
  if (!checked.ok()) return failure(checked);
  const auto entries = domain.window.load<nkv_page_entry>(command.source, command.count);
  for (uint32_t index = 0; index < command.count; ++index) {
    Page page;
    const Verdict accepted = Page::accept(domain, entries[index], index, kAnyCodec, &page);
    if (!accepted.ok()) return stopped(accepted, index);
    // Ascending, so that the header goes first and a half erased page is no page.
    std::memset(page.bytes().data(), 0, page.bytes().size());
  }
  return {.count = command.count};
}

}  // namespace nearkv::model
