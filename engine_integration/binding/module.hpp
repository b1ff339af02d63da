// The parts of the extension module.
#pragma once

#include <nanobind/nanobind.h>

namespace nearkv::python {

/// Device.
void bind_device(nanobind::module_& module);

/// Pool, ColdPages, NearStats, PoolUsage.
void bind_pool(nanobind::module_& module);

/// BlockBatch, BlockCache, BlockCodes, BlockLayout.
void bind_block_attention(nanobind::module_& module);

/// Pages, PageList.
void bind_pages(nanobind::module_& module);

/// ObjectStore, JobKind.
void bind_store(nanobind::module_& module);

/// ObjectStoreStats, NamespaceInfo, ObjectInfo, VerifyProgress.
void bind_store_records(nanobind::module_& module);

/// Router, RouteDecision, RouteTicket, Tier, CostModel, ..
void bind_router(nanobind::module_& module);

/// KlpmQueue.
void bind_klpm_queue(nanobind::module_& module);

/// RetentionPolicy, HeadStatistics, HeadDemand, Kept, retain_tokens, share_budget, ..
void bind_retention(nanobind::module_& module);

/// SchedulingAdvisor, scheduling_policies.
void bind_scheduler(nanobind::module_& module);

/// encode_block, decode_block, codec_supports.
void bind_codecs(nanobind::module_& module);

}  // namespace nearkv::python
