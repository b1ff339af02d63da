#include "opencl/commands.hpp"

#include <bit>
#include <limits>
#include <vector>

#include "opencl/device_coder.hpp"
#include "opencl/device_verdict.hpp"
#include "opencl/packed_rows.hpp"
#include "opencl/scores.hpp"
#include "tables.hpp"

namespace nearkv::opencl {

namespace {

using model::ListedPages;

std::vector<std::uint64_t> visible_of(const ListedPages& pages, PageRun run) {
  std::vector<std::uint64_t> visible;
  for (std::size_t page = run.first; page < run.end; ++page) {
    visible.push_back(pages[page].visible);
  }
  return visible;
}

// exp2[65], then tanh[1025].
cl::Buffer upload_tables(Runtime& runtime) {
  std::vector<std::int64_t> tables(model::exp2_table().begin(), model::exp2_table().end());
  tables.insert(tables.end(), model::tanh_table().begin(), model::tanh_table().end());
  return runtime.upload<std::int64_t>(tables);
}

// M of each row after each page of a run, [page][row], with those before the first page in front.
std::vector<std::int64_t> references_of(std::vector<std::int64_t> before,
                                        const std::vector<std::int64_t>& largest) {
  std::vector<std::int64_t> references = std::move(before);
  const std::size_t rows = references.size();
  for (std::size_t i = 0; i < largest.size(); ++i) {
    references.push_back(std::max(references[references.size() - rows], largest[i]));
  }
  return references;
}

// UNSUPPORTED to a command that makes codes or reads by them, of which each field by itself is
// right.
template <typename Command>
model::Verdict refuse_codes(const model::Command& command,
                            std::uint8_t (*check)(const Command*, std::uint64_t*),
                            bool (*needs_codes)(const Command&)) {
  const auto fields = std::bit_cast<Command>(command);
  model::Verdict verdict;
  verdict.status = check(&fields, &verdict.detail);
  if (verdict.ok() && needs_codes(fields)) verdict.status = NKV_STATUS_UNSUPPORTED;
  return verdict;
}

model::Verdict check_offered(const model::Command& command) {
  switch (model::opcode_of(command)) {
    case NKV_OPCODE_APPEND:
      return refuse_codes<nkv_append_command>(
          command, nkv_check_append_command,
          [](const auto& fields) { return (fields.flags & NKV_APPEND_FLAG_CODES) != 0; });
    case NKV_OPCODE_READ:
      return refuse_codes<nkv_read_command>(
          command, nkv_check_read_command,
          [](const auto& fields) { return (fields.flags & NKV_READ_FLAG_CODES) != 0; });
    case NKV_OPCODE_TOPK:
      return refuse_codes<nkv_topk_command>(
          command, nkv_check_topk_command,
          [](const auto& fields) { return fields.mode == NKV_SELECT_STATISTICAL; });
    case NKV_OPCODE_ATTEND:
      return refuse_codes<nkv_attend_command>(
          command, nkv_check_attend_command,
          [](const auto& fields) { return fields.mode != NKV_ATTEND_MODE_DENSE; });
    default:
      return {};
  }
}

}  // namespace

model::TopkAnswer topk_full(Runtime& runtime, const model::TopkTask& task) {
  model::TopkAnswer answer;
  ListedPages pages;
  answer.verdict = model::open_full_pages(task, /*raw_keys=*/false, &pages);
  if (!answer.verdict.ok()) return answer;
  answer.traffic.stream = model::full_scan_bursts(pages);
  if (pages.hides_nonfinite()) answer.flags |= NKV_COMPLETION_FLAG_NONFINITE;

  const std::size_t rows = task.input.query.rows();
  const cl::Buffer query = upload_query(runtime, task.input.query);
  std::vector<std::vector<model::ScoredToken<std::int64_t>>> scored(rows);
  for (std::size_t first = 0; first < pages.size();) {
    const PageRun run = run_from(pages, first);
    const cl::Buffer buffer =
        scores_of(runtime, pack_keys(runtime, pages, run), query, rows, task.input.exponents.key);
    std::vector<std::int64_t> scores(run.size() * NKV_PAGE_TOKENS * rows);
    runtime.download<std::int64_t>(buffer, scores);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const std::size_t token = i / rows;
      const model::ListedPage& listed = pages[run.first + token / NKV_PAGE_TOKENS];
      const auto of_page = static_cast<std::uint32_t>(token % NKV_PAGE_TOKENS);
      if (!model::has_token(listed.visible, of_page)) continue;
      scored[i % rows].push_back({.score = scores[i], .token = listed.first_token() + of_page});
    }
    first = run.end;
  }
  answer.verdict = device_verdict(runtime);
  if (!answer.verdict.ok()) return answer;
  for (std::size_t row = 0; row < rows; ++row) {
    answer.rows.push_back(model::found_by_score(task, row, std::move(scored[row])));
  }
  return answer;
}

model::AttendAnswer attend_dense(Runtime& runtime, const model::AttendTask& task) {
  model::AttendAnswer answer;
  ListedPages pages;
  answer.verdict = model::open_dense_pages(task, &pages);
  if (!answer.verdict.ok()) return answer;
  answer.traffic.stream = model::dense_bursts(pages);
  if (pages.hides_nonfinite()) answer.flags |= NKV_COMPLETION_FLAG_NONFINITE;

  const model::Query& query_rows = task.input.query;
  const std::size_t rows = query_rows.rows();
  const std::size_t sums_per_row = std::size_t{task.command.value_dim} + 1;  // And z.
  const cl::Buffer query = upload_query(runtime, query_rows);
  const std::vector<std::int32_t> eq(query_rows.exponents().begin(), query_rows.exponents().end());
  const cl::Buffer query_exponents = runtime.upload<std::int32_t>(eq);
  const cl::Buffer tables = upload_tables(runtime);
  std::vector<std::int64_t> sums(rows * sums_per_row, 0);
  const cl::Buffer of_sums = runtime.upload<std::int64_t>(sums);
  std::vector<std::int64_t> reference(rows, model::kNoReference);
  for (std::size_t first = 0; first < pages.size();) {
    const PageRun run = run_from(pages, first);
    const std::size_t tokens = run.size() * NKV_PAGE_TOKENS;
    const cl::Buffer scores =
        scores_of(runtime, pack_keys(runtime, pages, run), query, rows, task.input.exponents.key);
    const cl::Buffer visible = runtime.upload<std::uint64_t>(visible_of(pages, run));
    runtime.run("logits", cl::NDRange(tokens, rows), scores, query_exponents,
                cl_long{task.scale.factor()}, cl_int{task.scale.power()}, cl_long{task.scale.cap()},
                tables, scores);
    std::vector<std::int64_t> largest(run.size() * rows);
    const cl::Buffer of_largest = runtime.allocate(largest.size() * sizeof(std::int64_t));
    runtime.run("page_largest", cl::NDRange(run.size(), rows), scores, visible, of_largest);
    runtime.download<std::int64_t>(of_largest, largest);
    const std::vector<std::int64_t> references = references_of(std::move(reference), largest);
    reference.assign(references.end() - static_cast<std::ptrdiff_t>(rows), references.end());
    const cl::Buffer of_references = runtime.upload<std::int64_t>(references);
    const PackedRows values = pack_values(runtime, pages, run);
    runtime.run("accumulate", cl::NDRange(rows, sums_per_row), values.rows, values.row_bytes,
                values.channels, values.is_delta4, values.dtype, values.exponents,
                cl_int{task.input.exponents.value}, scores, visible, of_references,
                static_cast<cl_uint>(run.size()), tables, of_sums);
    // What this run has uploaded goes with it, so the kernels have to be over.
    runtime.download<std::int64_t>(of_sums, sums);
    first = run.end;
  }
  answer.verdict = device_verdict(runtime);
  if (!answer.verdict.ok()) return answer;
  for (std::size_t row = 0; row < rows; ++row) {
    const auto begin = sums.begin() + static_cast<std::ptrdiff_t>(row * sums_per_row);
    std::vector<std::int64_t> acc(begin, begin + task.command.value_dim);
    const model::RowSoftmax softmax(reference[row], begin[task.command.value_dim], std::move(acc));
    answer.rows.push_back(model::finish_row(task, softmax));
  }
  return answer;
}

model::Outcome execute(Runtime& runtime, const model::Domain& domain,
                       const model::Command& command) {
  const model::Verdict offered = check_offered(command);
  if (!offered.ok()) return model::failure(offered);
  const model::Domain rows_alone{
      .window = domain.window, .tenant = domain.tenant, .page_flags = NKV_PAGE_FLAG_KEY_SCALES};
  switch (model::opcode_of(command)) {
    case NKV_OPCODE_TOPK:
      return model::topk(rows_alone, std::bit_cast<nkv_topk_command>(command),
                         [&runtime](const model::TopkTask& task) {
                           return task.command.mode == NKV_SELECT_FULL ? topk_full(runtime, task)
                                                                       : model::topk_indexer(task);
                         });
    case NKV_OPCODE_ATTEND:
      return model::attend(
          rows_alone, std::bit_cast<nkv_attend_command>(command),
          [&runtime](const model::AttendTask& task) { return attend_dense(runtime, task); });
    case NKV_OPCODE_TRANSCODE: {
      DeviceCoder coder(runtime);
      return model::transcode(rows_alone, std::bit_cast<nkv_pages_command>(command), coder);
    }
    default:
      return model::execute(rows_alone, command);
  }
}

}  // namespace nearkv::opencl
