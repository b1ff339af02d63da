/* Every function of nearkv.h, from C11: results, error numbers and the texts that go with them. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nearkv.h"

enum { kTokens = 128, kDim = 64, kTopK = 4 };

static char failure[512];

/* Leaves the function with what did not hold. */
#define CHECK(condition)                                                                  \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      snprintf(failure, sizeof(failure), "line %d: %s [%s]", __LINE__, #condition, text); \
      return failure;                                                                     \
    }                                                                                     \
  } while (0)

static char text[256];
static uint16_t keys[kTokens * kDim];
static uint16_t values[kTokens * kDim];
static uint16_t query[kDim];
static float output[kDim];
static float lse;
static uint32_t ids[kTopK];
static float scores[kTopK];
static uint32_t count;
static uint8_t codec; /* Of compressed pages. */

static uint16_t to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return (uint16_t)(bits >> 16);
}

/* Token t has key t % 16 + 1 in channel t % kDim and value t in all channels: rows of which INT8
 * gives back every bit, as lossless codecs do. The query looks for channel 5, where tokens 5 and 69
 * have a 6. */
static void fill_rows(void) {
  memset(keys, 0, sizeof(keys));
  for (int t = 0; t < kTokens; ++t) {
    keys[t * kDim + t % kDim] = to_bf16((float)(t % 16 + 1));
    for (int c = 0; c < kDim; ++c) values[t * kDim + c] = to_bf16((float)t);
  }
  query[5] = to_bf16(4.0F);
}

static struct nearkv_attend_request attend_request(void) {
  return (struct nearkv_attend_request){.sequence = 1,
                                        .rows = 1,
                                        .query_dtype = NKV_DTYPE_BF16,
                                        .query = query,
                                        .output = output,
                                        .lse = &lse};
}

static struct nearkv_top_k_request top_k_request(void) {
  return (struct nearkv_top_k_request){.sequence = 1,
                                       .rows = 1,
                                       .top_k = kTopK,
                                       .query_dtype = NKV_DTYPE_BF16,
                                       .scale = 0.5F,
                                       .query = query,
                                       .ids = ids,
                                       .scores = scores,
                                       .counts = &count};
}

static const char* use_device(const char* uri) {
  struct nearkv_device* device = NULL;
  CHECK(nearkv_device_open("nonsense", &device, text, sizeof(text)) == -EINVAL);
  CHECK(device == NULL && strstr(text, "expected SCHEME:") != NULL);
  char cut[8] = "xxxxxxx";
  CHECK(nearkv_device_open("nonsense", &device, cut, sizeof(cut)) == -EINVAL);
  CHECK(strlen(cut) == sizeof(cut) - 1);
  CHECK(nearkv_device_open("nonsense", &device, NULL, 0) == -EINVAL);
  CHECK(nearkv_device_open("nosuch:", &device, text, sizeof(text)) == -ENODEV);
  CHECK(strstr(text, "libnearkv_nosuch.so") != NULL);
  CHECK(nearkv_device_open(uri, &device, text, sizeof(text)) == 0);
  nearkv_device_close(device);
  nearkv_device_close(NULL);
  nearkv_pool_close(NULL);
  return NULL;
}

static const char* use_sequences(struct nearkv_pool* pool) {
  const struct nearkv_rows key_rows = {keys, kDim * 2, 0};
  const struct nearkv_rows value_rows = {values, kDim * 2, 0};
  uint32_t tokens = 0;
  CHECK(nearkv_create_sequence(pool, 1) == 0);
  CHECK(nearkv_create_sequence(pool, 1) == -EEXIST);
  nearkv_pool_last_error(pool, text, sizeof(text));
  CHECK(strstr(text, "it exists already") != NULL);
  CHECK(nearkv_append(pool, 1, 0, &key_rows, &value_rows, kTokens) == 0);
  CHECK(nearkv_append(pool, 1, 0, &key_rows, &value_rows, 63) == -EINVAL);
  CHECK(nearkv_append(pool, 7, 0, &key_rows, &value_rows, 64) == -ENOENT);
  nearkv_pool_last_error(pool, text, sizeof(text));
  CHECK(strstr(text, "sequence 7") != NULL);
  CHECK(nearkv_tokens(pool, 1, 0, &tokens) == 0 && tokens == kTokens);
  CHECK(nearkv_tokens(pool, 7, 0, &tokens) == -ENOENT);
  CHECK(nearkv_fork(pool, 1, 2, 64) == 0);
  CHECK(nearkv_fork(pool, 7, 8, 0) == -ENOENT);
  CHECK(nearkv_tokens(pool, 2, 0, &tokens) == 0 && tokens == 64);
  struct nearkv_usage usage;
  nearkv_pool_usage(pool, &usage);
  CHECK(usage.sequences == 2 && usage.pages == 2 && usage.page_bytes > 0);
  CHECK(usage.page_bytes < usage.total_bytes);
  CHECK(nearkv_drop(pool, 2) == 0);
  CHECK(nearkv_drop(pool, 2) == -ENOENT);
  return NULL;
}

static const char* use_queries(struct nearkv_pool* pool) {
  float bound = -1;
  struct nearkv_attend_options options;
  nearkv_attend_options_init(&options);
  CHECK(options.scale == 1.0F && options.mode == NKV_ATTEND_MODE_DENSE);
  struct nearkv_attend_request request = attend_request();
  request.bound = &bound;
  CHECK(nearkv_attend(pool, &request, 1, &options) == 0);
  CHECK(fabsf(output[0] - 37.0F) < 0.2F && fabsf(output[kDim - 1] - 37.0F) < 0.2F);
  CHECK(fabsf(lse - (24.0F + logf(2.0F))) < 1e-3F && bound == 0.0F);
  request.bound = NULL;
  options.tokens = 64;
  CHECK(nearkv_attend(pool, &request, 1, &options) == 0);
  CHECK(fabsf(output[0] - 5.0F) < 0.1F);
  options.tokens = kTokens + 1;
  CHECK(nearkv_attend(pool, &request, 1, &options) == -EINVAL);
  CHECK(nearkv_attend(pool, &request, 0, &options) == 0);
  options.tokens = 0;
  query[6] = 0x7FC0;
  CHECK(nearkv_attend(pool, &request, 1, &options) == -EDOM);
  nearkv_pool_last_error(pool, text, sizeof(text));
  CHECK(strstr(text, "NaN or an infinity") != NULL);
  query[6] = 0;

  struct nearkv_top_k_request search = top_k_request();
  CHECK(nearkv_top_k(pool, &search) == 0);
  CHECK(count == kTopK && ids[0] == 5 && ids[1] == 69 && ids[2] == 0);
  CHECK(scores[0] == 12.0F && scores[1] == 12.0F && scores[2] == 0.0F);
  search.mode = NKV_SELECT_INDEXER;
  CHECK(nearkv_top_k(pool, &search) == -EINVAL);
  return NULL;
}

static const char* use_rows(struct nearkv_pool* pool) {
  uint16_t some_keys[2 * kDim];
  uint16_t some_values[2 * kDim];
  const uint32_t chosen[2] = {100, 3};
  CHECK(nearkv_gather(pool, 1, 0, 0, chosen, 2, some_keys, some_values) == 0);
  CHECK(memcmp(some_keys, keys + 100 * kDim, 2 * kDim) == 0);
  CHECK(memcmp(some_values + kDim, values + 3 * kDim, 2 * kDim) == 0);
  CHECK(nearkv_gather(pool, 1, 0, 0, chosen, 2, NULL, some_values) == 0);
  CHECK(nearkv_gather(pool, 7, 0, 0, chosen, 2, some_keys, NULL) == -ENOENT);
  CHECK(nearkv_read(pool, 1, 0, 0, 63, 2, some_keys, some_values) == 0);
  CHECK(memcmp(some_keys, keys + 63 * kDim, sizeof(some_keys)) == 0);
  CHECK(memcmp(some_values, values + 63 * kDim, sizeof(some_values)) == 0);
  CHECK(nearkv_read(pool, 1, 0, 0, kTokens, 1, some_keys, NULL) == -EINVAL);
  nearkv_pool_last_error(pool, text, sizeof(text));
  CHECK(strstr(text, "beyond the end") != NULL);
  uint64_t pages = 0;
  CHECK(nearkv_scrub(pool, 1, &pages) == 0 && pages == 2);
  CHECK(nearkv_scrub(pool, 7, &pages) == -ENOENT);
  struct nearkv_usage warm;
  struct nearkv_usage cold;
  nearkv_pool_usage(pool, &warm);
  CHECK(nearkv_transcode(pool, 1, codec) == 0);
  nearkv_pool_usage(pool, &cold);
  CHECK(cold.pages == warm.pages && cold.page_bytes < warm.page_bytes);
  CHECK(nearkv_read(pool, 1, 0, 0, 0, 1, some_keys, NULL) == -EUCLEAN);
  CHECK(nearkv_transcode(pool, 1, NKV_CODEC_NONE) == 0);
  CHECK(nearkv_transcode(pool, 7, NKV_CODEC_NONE) == -ENOENT);
  struct nearkv_stats stats;
  nearkv_pool_stats(pool, &stats);
  CHECK(stats.commands > 0 && stats.link_to_device_bytes > 0);
  CHECK(stats.link_from_device_bytes > 0 && stats.nonfinite == 0 && stats.dense_fallbacks == 0);
  return NULL;
}

static int last_error_has(struct nearkv_pool* pool, const char* part) {
  nearkv_pool_last_error(pool, text, sizeof(text));
  return strstr(text, part) != NULL;
}

static const char* use_chosen_pages(struct nearkv_pool* pool) {
  const uint32_t chosen[2] = {1, 1};
  const uint32_t none = 2;
  uint8_t codecs[2] = {99, 99};
  uint32_t pages = 0;
  uint32_t moved = 99;
  CHECK(nearkv_transcode_pages(pool, 1, 0, 0, chosen, 2, codec, &moved) == 0);
  CHECK(moved == 1);
  CHECK(nearkv_codecs(pool, 1, 0, 0, NULL, 0, &pages) == 0 && pages == 2);
  CHECK(nearkv_codecs(pool, 1, 0, 0, codecs, 1, &pages) == 0 && pages == 2);
  CHECK(codecs[0] == NKV_CODEC_NONE && codecs[1] == 99);
  CHECK(nearkv_codecs(pool, 1, 0, 0, codecs, 2, &pages) == 0);
  CHECK(codecs[1] == codec);
  CHECK(nearkv_codecs(pool, 7, 0, 0, codecs, 2, &pages) == -ENOENT);
  CHECK(nearkv_transcode_pages(pool, 7, 0, 0, chosen, 2, NKV_CODEC_NONE, &moved) == -ENOENT);
  CHECK(nearkv_transcode_pages(pool, 1, 0, 0, &none, 1, NKV_CODEC_NONE, &moved) == -EINVAL);
  CHECK(moved == 0 && last_error_has(pool, "there is no page 2 among the 2 pages"));
  CHECK(nearkv_transcode_pages(pool, 1, 0, 0, chosen, 2, 77, &moved) == -EINVAL);
  CHECK(last_error_has(pool, "there is no codec 77"));
  return NULL;
}

/* Page 1 is compressed, and with it token 69; token 5 is not. */
static const char* use_cold_queries(struct nearkv_pool* pool) {
  struct nearkv_attend_options options;
  nearkv_attend_options_init(&options);
  CHECK(options.cold == NEARKV_COLD_PAGES_REFUSE);
  const struct nearkv_attend_request request = attend_request();
  CHECK(nearkv_attend(pool, &request, 1, &options) == -EUCLEAN);
  CHECK(last_error_has(pool, "page 1 is compressed"));
  options.cold = NEARKV_COLD_PAGES_SKIP;
  CHECK(nearkv_attend(pool, &request, 1, &options) == 0);
  CHECK(fabsf(output[0] - 5.0F) < 0.1F && fabsf(lse - 24.0F) < 1e-3F);
  options.cold = NEARKV_COLD_PAGES_DECODE;
  CHECK(nearkv_attend(pool, &request, 1, &options) == 0);
  CHECK(fabsf(output[0] - 37.0F) < 0.2F && fabsf(lse - (24.0F + logf(2.0F))) < 1e-3F);
  options.window = 64;
  CHECK(nearkv_attend(pool, &request, 1, &options) == -EINVAL);
  CHECK(last_error_has(pool, "page 1 is compressed, and such pages allow no window"));
  options.window = 0;
  options.cold = NEARKV_COLD_PAGES_DECODE + 1;
  CHECK(nearkv_attend(pool, &request, 1, &options) == -EINVAL);
  CHECK(last_error_has(pool, "there is no ColdPages 3"));

  struct nearkv_top_k_request search = top_k_request();
  CHECK(nearkv_top_k(pool, &search) == -EUCLEAN);
  search.cold = NEARKV_COLD_PAGES_SKIP;
  CHECK(nearkv_top_k(pool, &search) == 0);
  CHECK(count == kTopK && ids[0] == 5 && scores[0] == 12.0F && ids[1] == 0 && scores[1] == 0.0F);
  search.cold = NEARKV_COLD_PAGES_DECODE;
  CHECK(nearkv_top_k(pool, &search) == 0);
  CHECK(count == kTopK && ids[0] == 5 && ids[1] == 69 && scores[1] == 12.0F && ids[2] == 0);
  search.cold = NEARKV_COLD_PAGES_DECODE + 1;
  CHECK(nearkv_top_k(pool, &search) == -EINVAL);
  search.cold = NEARKV_COLD_PAGES_REFUSE;
  search.top_k = 0;
  CHECK(nearkv_top_k(pool, &search) == -EINVAL && last_error_has(pool, "top_k is 0"));
  const uint32_t page = 1;
  uint32_t moved = 0;
  CHECK(nearkv_transcode_pages(pool, 1, 0, 0, &page, 1, NKV_CODEC_NONE, &moved) == 0 && moved == 1);
  return NULL;
}

static const char* use_pool(struct nearkv_device* device) {
  struct nearkv_pool_options options;
  nearkv_pool_options_init(&options);
  CHECK(options.shape.head_dim == 128 && options.shape.dtype == NKV_DTYPE_BF16);
  options.shape.head_dim = options.shape.value_dim = kDim;
  struct nearkv_pool* pool = NULL;
  CHECK(nearkv_pool_open(device, &options, &pool, text, sizeof(text)) == -EUCLEAN);
  CHECK(pool == NULL && strstr(text, "holds no NearKV pool") != NULL);
  options.shape.layers = 0;
  CHECK(nearkv_pool_create(device, &options, &pool, text, sizeof(text)) == -EINVAL);
  CHECK(strstr(text, "needs layers") != NULL);
  options.shape.layers = 1;
  CHECK(nearkv_pool_create(device, &options, &pool, text, sizeof(text)) == 0);
  const char* failed = use_sequences(pool);
  if (failed == NULL) failed = use_queries(pool);
  if (failed == NULL) failed = use_rows(pool);
  if (failed == NULL) failed = use_chosen_pages(pool);
  nearkv_pool_close(pool);
  if (failed != NULL) return failed;
  /* The memory remembers. */
  CHECK(nearkv_pool_open(device, &options, &pool, text, sizeof(text)) == 0);
  failed = use_cold_queries(pool);
  if (failed == NULL) failed = use_rows(pool);
  nearkv_pool_close(pool);
  return failed;
}

/* A device that does not work by codes says so. */
static const char* use_gains(struct nearkv_device* device) {
  struct nearkv_pool_options options;
  nearkv_pool_options_init(&options);
  CHECK(options.codes == 0);
  options.shape.head_dim = options.shape.value_dim = kDim;
  options.codes = 1;
  struct nearkv_pool* pool = NULL;
  const int made = nearkv_pool_create(device, &options, &pool, text, sizeof(text));
  if (made == -EOPNOTSUPP && strstr(text, "does not work by codes") != NULL) return NULL;
  CHECK(made == 0);
  int8_t gains[kDim] = {1, -1};
  int8_t found[kDim] = {0};
  const struct nearkv_rows key_rows = {keys, kDim * 2, 0};
  const struct nearkv_rows value_rows = {values, kDim * 2, 0};
  CHECK(nearkv_gains(pool, 0, 0, found) == -ENOENT);
  CHECK(nearkv_set_gains(pool, 0, 0, gains) == 0);
  CHECK(nearkv_set_gains(pool, 0, 1, gains) == -EINVAL);
  CHECK(nearkv_create_sequence(pool, 1) == 0);
  CHECK(nearkv_append(pool, 1, 0, &key_rows, &value_rows, kTokens) == 0);
  gains[1] = -2;
  CHECK(nearkv_set_gains(pool, 0, 0, gains) == -EEXIST);
  CHECK(nearkv_gains(pool, 0, 0, found) == 0 && found[0] == 1 && found[1] == -1);
  nearkv_pool_close(pool);
  return NULL;
}

const char* nearkv_c_api_use(const char* uri, uint8_t codec_to_use);

const char* nearkv_c_api_use(const char* uri, uint8_t codec_to_use) {
  codec = codec_to_use;
  fill_rows();
  const char* failed = use_device(uri);
  if (failed != NULL) return failed;
  struct nearkv_device* device = NULL;
  CHECK(nearkv_device_open(uri, &device, text, sizeof(text)) == 0);
  failed = use_pool(device);
  if (failed == NULL) failed = use_gains(device);
  nearkv_device_close(device);
  return failed;
}
