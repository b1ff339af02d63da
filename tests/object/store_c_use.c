/* Every function of nearkv_store.h, from C11. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "nearkv_store.h"

enum { kBlocks = 8, kBlockBytes = 10000, kManyItems = 70 };

static char failure[512];
static char text[256];

/* Leaves the function with what did not hold. */
#define CHECK(condition)                                                                  \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      snprintf(failure, sizeof(failure), "line %d: %s [%s]", __LINE__, #condition, text); \
      return failure;                                                                     \
    }                                                                                     \
  } while (0)

static uint8_t blocks[kBlocks][kBlockBytes];
static uint8_t found[kBlocks][kBlockBytes];
static char keys[kBlocks][40];
static struct iovec key_list[kBlocks];
static struct iovec segments[kBlocks][2];
static struct nearkv_item items[kBlocks];

/* Block i is full of its number; each comes in two segments. */
static void fill_blocks(void) {
  for (int i = 0; i < kBlocks; ++i) {
    memset(blocks[i], i + 1, kBlockBytes);
    snprintf(keys[i], sizeof(keys[i]), "block %d", i);
    key_list[i].iov_base = keys[i];
    key_list[i].iov_len = strlen(keys[i]);
    memset(&items[i], 0, sizeof(items[i]));
    items[i].key = keys[i];
    items[i].key_bytes = strlen(keys[i]);
    items[i].segments = segments[i];
    items[i].segment_count = 2;
  }
}

static void point_segments_at(uint8_t memory[kBlocks][kBlockBytes]) {
  for (int i = 0; i < kBlocks; ++i) {
    segments[i][0].iov_base = memory[i];
    segments[i][0].iov_len = 777;
    segments[i][1].iov_base = memory[i] + 777;
    segments[i][1].iov_len = kBlockBytes - 777;
  }
}

static struct nearkv_job job_of(enum nearkv_job_kind kind, uint32_t space, size_t count) {
  struct nearkv_job job;
  nearkv_job_init(&job);
  job.kind = (uint8_t)kind;
  job.namespace_number = space;
  job.items = items;
  job.item_count = count;
  return job;
}

static const char* use_set_and_get(struct nearkv_store* store, uint32_t space) {
  struct nearkv_job_results results;
  struct nearkv_job job = job_of(NEARKV_JOB_SET, space, kBlocks - 1);
  job.chain = 1;
  job.parts = 4;
  point_segments_at(blocks);
  CHECK(nearkv_store_run(store, &job, &results) == 0);
  CHECK(results.count == 1 && results.results[0].item_count == kBlocks - 1);
  CHECK(results.results[0].ok_count == kBlocks - 1);
  nearkv_job_results_free(&results);
  CHECK(results.count == 0 && results.owner == NULL);

  /* The last key was not stored. */
  point_segments_at(found);
  job = job_of(NEARKV_JOB_GET, space, kBlocks);
  CHECK(nearkv_store_run(store, &job, &results) == 0);
  const struct nearkv_job_result* result = results.results;
  CHECK(result->ok_count == kBlocks - 1 && result->ok_bits[0] == 0x7F);
  CHECK(result->statuses[0] == NKV_STATUS_OK && result->object_bytes[0] == kBlockBytes);
  CHECK(result->statuses[kBlocks - 1] == NKV_STATUS_NOT_FOUND);
  CHECK(result->object_bytes[kBlocks - 1] == 0);
  CHECK(memcmp(found, blocks, (kBlocks - 1) * kBlockBytes) == 0);
  nearkv_job_results_free(&results);

  /* The third of four layers, and the size of all. */
  memset(found, 0, sizeof(found));
  items[1].first_part = 2;
  items[1].part_count = 1;
  items[2].segment_count = 0;
  CHECK(nearkv_store_run(store, &job, &results) == 0);
  CHECK(results.results[0].object_bytes[1] == kBlockBytes / 4);
  CHECK(found[1][0] == 2 && found[1][kBlockBytes / 4 - 1] == 2 && found[1][kBlockBytes / 4] == 0);
  CHECK(results.results[0].statuses[2] == NKV_STATUS_BAD_ARGUMENT);
  CHECK(results.results[0].object_bytes[2] == kBlockBytes);
  nearkv_job_results_free(&results);
  fill_blocks();

  job.namespace_number = 99;
  CHECK(nearkv_store_run(store, &job, &results) == -EINVAL);
  CHECK(results.count == 0 && results.results == NULL);
  nearkv_job_results_free(&results);
  return NULL;
}

static const char* use_queries(struct nearkv_store* store, uint32_t space) {
  size_t leading = 0;
  uint8_t present[kBlocks];
  CHECK(nearkv_store_exists(store, space, key_list, kBlocks, &leading, present) == 0);
  CHECK(leading == kBlocks - 1 && present[0] == 1 && present[kBlocks - 1] == 0);
  CHECK(nearkv_store_exists(store, space, key_list + 2, 3, &leading, NULL) == 0);
  CHECK(leading == 3);
  size_t prefix = 0;
  CHECK(nearkv_store_match_prefix(store, space, key_list, kBlocks, &prefix) == 0);
  CHECK(prefix == kBlocks - 1);
  CHECK(nearkv_store_touch(store, space, key_list, kBlocks) == 0);

  uint64_t lease = 0;
  uint8_t statuses[2];
  CHECK(nearkv_store_pin(store, space, key_list + kBlocks - 2, 2, 60000, &lease, statuses) == 0);
  CHECK(lease != 0 && statuses[0] == NKV_STATUS_OK && statuses[1] == NKV_STATUS_NOT_FOUND);
  struct nearkv_object_stats stats;
  CHECK(nearkv_store_stats(store, &stats) == 0);
  CHECK(stats.objects == kBlocks - 1 && stats.object_bytes == (kBlocks - 1) * kBlockBytes);
  CHECK(stats.leases == 1 && stats.sets == kBlocks - 1 && stats.used_bytes < stats.total_bytes);
  struct nearkv_object_info infos[kBlocks];
  size_t count = 0;
  CHECK(nearkv_store_list(store, 0, infos, kBlocks, &count) == 0 && count == kBlocks - 1);
  CHECK(infos[0].key_bytes == strlen(keys[0]) && infos[0].key_is_digest == 0);
  CHECK(memcmp(infos[0].key, keys[0], infos[0].key_bytes) == 0);
  CHECK(infos[0].bytes == kBlockBytes && infos[0].parts == 4 && infos[0].tenant == 3);
  CHECK(infos[0].leased == 0 && infos[kBlocks - 2].leased == 1 && infos[0].created_s != 0);
  CHECK(infos[0].namespace_number == space && infos[0].extents == 1 && infos[0].expires_s == 0);
  CHECK(infos[0].generation < infos[1].generation);
  CHECK(nearkv_store_list(store, infos[1].number, infos, 2, &count) == 0 && count == 2);

  struct nearkv_job_results results;
  struct nearkv_job job = job_of(NEARKV_JOB_ERASE, space, kBlocks);
  CHECK(nearkv_store_run(store, &job, &results) == 0);
  CHECK(results.results[0].statuses[kBlocks - 2] == NKV_STATUS_BUSY);
  CHECK(results.results[0].ok_bits[0] == 0x3F);
  nearkv_job_results_free(&results);
  CHECK(nearkv_store_unpin(store, lease) == 0);
  CHECK(nearkv_store_unpin(store, lease) == -ENOENT);

  struct nearkv_namespace_info spaces[2];
  CHECK(nearkv_store_namespaces(store, spaces, 2, &count) == 0 && count == 1);
  CHECK(spaces[0].number == space && spaces[0].tenant == 3);
  CHECK(strcmp(spaces[0].text, "llama bf16 LBHNC rank 1 group 0") == 0);
  return NULL;
}

static const char* use_jobs(struct nearkv_store* store, uint32_t space) {
  struct nearkv_job_results results;
  CHECK(nearkv_store_drain(store, &results) == 0 && results.count == 0);
  uint64_t id = 0;
  struct nearkv_job job = job_of(NEARKV_JOB_SET, space, kBlocks);
  point_segments_at(blocks);
  job.overwrite = 1;
  job.age_s = 1000;
  CHECK(nearkv_store_submit(store, &job, &id) == 0);
  CHECK(nearkv_store_wait(store, id, 60000, &results) == 0);
  CHECK(results.count == 1 && results.results[0].id == id);
  CHECK(results.results[0].ok_count == kBlocks);
  nearkv_job_results_free(&results);
  CHECK(nearkv_store_wait(store, id, 0, &results) == -ENOENT && results.count == 0);
  CHECK(nearkv_store_cancel(store, id) == -ENOENT);

  /* More than one word of bits. */
  struct nearkv_item many[kManyItems];
  for (int i = 0; i < kManyItems; ++i) many[i] = items[i % 2];
  many[64].key = "nothing has this key";
  many[64].key_bytes = strlen(many[64].key);
  job = job_of(NEARKV_JOB_EXISTS, space, kManyItems);
  job.items = many;
  uint64_t second = 0;
  CHECK(nearkv_store_submit(store, &job, &id) == 0);
  CHECK(nearkv_store_submit(store, &job, &second) == 0 && second != id);
  size_t reported = 0;
  while (reported < 2) {
    struct pollfd ready = {.fd = nearkv_store_event_fd(store), .events = POLLIN};
    CHECK(poll(&ready, 1, 60000) == 1);
    CHECK(nearkv_store_drain(store, &results) == 0);
    for (size_t i = 0; i < results.count; ++i) {
      const struct nearkv_job_result* result = &results.results[i];
      CHECK(result->id == id || result->id == second);
      CHECK(result->ok_count == kManyItems - 1 && result->statuses[64] == NKV_STATUS_NOT_FOUND);
      CHECK(result->ok_bits[0] == UINT64_MAX && result->ok_bits[1] == 0x3E);
    }
    reported += results.count;
    nearkv_job_results_free(&results);
  }
  CHECK(reported == 2);
  job.chain = 1;
  CHECK(nearkv_store_submit(store, &job, &id) == -EINVAL);
  return NULL;
}

static const char* use_maintenance(struct nearkv_store* store) {
  struct nearkv_verify_progress progress = {0};
  do {
    CHECK(nearkv_store_verify(store, progress.next, 64, &progress) == 0);
  } while (progress.next != 0);
  CHECK(progress.objects == kBlocks && progress.bytes == kBlocks * kBlockBytes);
  CHECK(progress.damaged == 0);
  uint64_t moved_bytes = 1;
  for (int i = 0; i < 100 && moved_bytes != 0; ++i) {
    CHECK(nearkv_store_defragment(store, 1 << 20, &moved_bytes) == 0);
  }
  CHECK(moved_bytes == 0);
  CHECK(nearkv_store_set_quota(store, 3, 3 * 12288) == 0);
  struct nearkv_object_stats stats;
  CHECK(nearkv_store_stats(store, &stats) == 0 && stats.objects == 3 && stats.evictions > 0);
  return NULL;
}

const char* nearkv_store_c_use(const char* uri);

/* Halves of a block, the second one first. */
static const char* use_parts(struct nearkv_store* store, uint32_t space) {
  struct nearkv_job_results results;
  struct iovec half = {NULL, kBlockBytes / 2};
  struct nearkv_item item;
  memset(&item, 0, sizeof(item));
  item.key = "in parts";
  item.key_bytes = 8;
  item.segments = &half;
  item.segment_count = 1;
  item.part_count = 1;
  struct nearkv_job job = job_of(NEARKV_JOB_SET_PARTS, space, 1);
  job.items = &item;
  job.parts = 2;
  job.object_bytes = kBlockBytes;
  for (uint16_t part = 2; part-- > 0;) {
    size_t leading = 9;
    const struct iovec key = {(void*)item.key, item.key_bytes};
    CHECK(nearkv_store_exists(store, space, &key, 1, &leading, NULL) == 0 && leading == 0);
    item.first_part = part;
    half.iov_base = blocks[3] + part * (kBlockBytes / 2);
    CHECK(nearkv_store_run(store, &job, &results) == 0 && results.results[0].ok_count == 1);
    nearkv_job_results_free(&results);
  }
  struct iovec whole = {found[3], kBlockBytes};
  memset(found[3], 0, kBlockBytes);
  item.segments = &whole;
  item.first_part = item.part_count = 0;
  job = job_of(NEARKV_JOB_GET, space, 1);
  job.items = &item;
  job.quiet = 1;
  CHECK(nearkv_store_run(store, &job, &results) == 0 && results.results[0].ok_count == 1);
  nearkv_job_results_free(&results);
  CHECK(memcmp(found[3], blocks[3], kBlockBytes) == 0);
  struct nearkv_object_info info;
  CHECK(nearkv_store_describe(store, space, item.key, item.key_bytes, &info) == 0);
  CHECK(info.parts == 2 && info.bytes == kBlockBytes && info.namespace_number == space);
  CHECK(nearkv_store_describe(store, space, "nothing", 7, &info) == -ENOENT);
  job.kind = NEARKV_JOB_ERASE;
  item.generation = 1;
  CHECK(nearkv_store_run(store, &job, &results) == 0);
  CHECK(results.results[0].statuses[0] == NKV_STATUS_NOT_FOUND);
  nearkv_job_results_free(&results);
  return NULL;
}

static const char* use_events(struct nearkv_store* store, uint32_t space) {
  struct nearkv_events events;
  CHECK(nearkv_store_watch(store, 1) == 0);
  const char* failed = use_parts(store, space);
  if (failed != NULL) return failed;
  struct nearkv_job_results results;
  struct nearkv_item item;
  memset(&item, 0, sizeof(item));
  item.key = "in parts";
  item.key_bytes = 8;
  struct nearkv_job job = job_of(NEARKV_JOB_ERASE, space, 1);
  job.items = &item;
  CHECK(nearkv_store_set_wipe(store, 3, 1) == 0);
  CHECK(nearkv_store_run(store, &job, &results) == 0 && results.results[0].ok_count == 1);
  nearkv_job_results_free(&results);
  CHECK(nearkv_store_take_events(store, &events) == 0);
  CHECK(events.count == 1 && events.missed == 1);
  CHECK(events.events[0].kind == NEARKV_EVENT_ERASED && events.events[0].bytes == kBlockBytes);
  CHECK(events.events[0].key_bytes == 8 && memcmp(events.events[0].key, "in parts", 8) == 0);
  nearkv_events_free(&events);
  CHECK(events.count == 0 && events.events == NULL);
  return NULL;
}

static const char* use_stack(void) {
  struct nearkv_store_options options;
  nearkv_store_options_init(&options);
  struct nearkv_store* tiers[2] = {NULL, NULL};
  for (int i = 0; i < 2; ++i) {
    CHECK(nearkv_store_create("cpu:?memory=8MiB", &options, &tiers[i], text, sizeof(text)) == 0);
  }
  struct nearkv_stack_options stack_options;
  nearkv_stack_options_init(&stack_options);
  CHECK(stack_options.promote_after == 2 && stack_options.workers == 1);
  struct nearkv_store* store = NULL;
  stack_options.low_watermark = stack_options.high_watermark;
  CHECK(nearkv_store_stack(tiers, 2, &stack_options, &store, text, sizeof(text)) == -EINVAL);
  nearkv_stack_options_init(&stack_options);
  CHECK(nearkv_store_stack(tiers, 2, &stack_options, &store, text, sizeof(text)) == 0);
  struct nearkv_object_stats stats[3];
  size_t count = 0;
  CHECK(nearkv_store_tier_stats(store, stats, 3, &count) == 0 && count == 2);
  CHECK(stats[0].total_bytes != 0 && stats[1].total_bytes == stats[0].total_bytes);
  nearkv_store_close(store);

  struct nearkv_client_options client;
  nearkv_client_options_init(&client);
  client.patience_ms = 0;
  CHECK(nearkv_store_connect("/nobody/listens", &client, &store, text, sizeof(text)) ==
        -ECONNREFUSED);
  return NULL;
}

const char* nearkv_store_c_use(const char* uri) {
  fill_blocks();
  struct nearkv_store_options options;
  nearkv_store_options_init(&options);
  CHECK(options.workers == 1 && strcmp(options.eviction, "chain_lhd") == 0);
  CHECK(options.max_namespaces == 1024 && options.max_objects == 0 && options.patience_ms == 0);
  struct nearkv_store* store = NULL;
  CHECK(nearkv_store_open(uri, &options, &store, text, sizeof(text)) == -EUCLEAN && store == NULL);
  CHECK(nearkv_store_create("model:", &options, &store, text, sizeof(text)) == -EINVAL);
  CHECK(strstr(text, "memory of this machine") != NULL);
  options.eviction = "fifo";
  CHECK(nearkv_store_create(uri, &options, &store, text, sizeof(text)) == -EINVAL);
  CHECK(strstr(text, "fifo") != NULL && store == NULL);
  options.eviction = "lru";
  CHECK(nearkv_store_create(uri, &options, &store, text, sizeof(text)) == 0);
  text[0] = '\0';

  struct nearkv_namespace name;
  nearkv_namespace_init(&name);
  name.tenant = 3;
  name.model = "llama";
  name.dtype = "bf16";
  name.layout = "LBHNC";
  name.rank = 1;
  uint32_t space = 99;
  CHECK(nearkv_store_open_namespace(store, &name, &space) == 0);
  const char* failed = use_set_and_get(store, space);
  if (failed == NULL) failed = use_queries(store, space);
  if (failed == NULL) failed = use_jobs(store, space);
  if (failed == NULL) failed = use_events(store, space);
  if (failed == NULL) failed = use_maintenance(store);
  if (failed == NULL) failed = use_stack();
  nearkv_store_close(store);
  nearkv_store_close(NULL);
  if (failed != NULL) return failed;

  /* The memory remembers; another salt is another namespace. */
  CHECK(nearkv_store_open(uri, &options, &store, text, sizeof(text)) == 0);
  struct nearkv_object_stats stats;
  CHECK(nearkv_store_stats(store, &stats) == 0 && stats.objects == 3 && stats.recovered == 3);
  uint32_t again = 99;
  CHECK(nearkv_store_open_namespace(store, &name, &again) == 0 && again == space);
  name.salt = "secret";
  name.salt_bytes = 6;
  CHECK(nearkv_store_open_namespace(store, &name, &again) == 0 && again != space);
  nearkv_store_close(store);
  return NULL;
}
