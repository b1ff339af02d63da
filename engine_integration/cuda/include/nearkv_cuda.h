/* NearKV's kernels for NVIDIA GPUs, for callers in any language.
 *
 * Every function that works returns a status of the contract (enum nkv_status); a line that says
 * what to do is had by nearkv_cuda_last_error(). Work goes to a stream (a cudaStream_t; null: the
 * default one) and is done when the stream gets there: nothing here waits for it. Kernels can be
 * captured into a graph; what opens or closes cannot. Pointers are such as the GPU's kernels may
 * follow: its own memory, or pinned memory of the host's.
 *
 * Bad arguments are refused before anything starts: BAD_ARGUMENT for shapes, strides, alignment and
 * pointers that no kernel takes, UNSUPPORTED for what this GPU, this build or a graph that is being
 * captured cannot do, OUT_OF_MEMORY, NO_DEVICE without a GPU, and INTERNAL once the GPU has failed,
 * after which the process has to start again.
 *
 * Thread safety: all calls on one handle. A handle belongs to one GPU, which is
 * current for as long as a call takes.
 */
#ifndef NEARKV_CUDA_H_
#define NEARKV_CUDA_H_

#include <stddef.h>
#include <stdint.h>

#include "nkv_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NEARKV_CUDA_API __attribute__((visibility("default")))

struct nearkv_cuda;

struct nearkv_cuda_info {
  char name[256];
  uint32_t architecture; /* 90: compute capability 9.0; 0: emulated */
  uint32_t multiprocessors;
  uint64_t shared_bytes; /* most that a block may have */
};

/* Opens GPU `ordinal`; `reason`, if not null, receives why not. UNSUPPORTED: this library has no
 * code for its architecture. */
NEARKV_CUDA_API uint8_t nearkv_cuda_open(int ordinal, struct nearkv_cuda** gpu, char* reason,
                                         size_t reason_bytes);
NEARKV_CUDA_API void nearkv_cuda_close(struct nearkv_cuda* gpu);
NEARKV_CUDA_API void nearkv_cuda_describe(struct nearkv_cuda* gpu, struct nearkv_cuda_info* info);
/* A zero-terminated line about the last call on the handle that failed, cut to `bytes`. */
NEARKV_CUDA_API void nearkv_cuda_last_error(struct nearkv_cuda* gpu, char* text, size_t bytes);
/* sizeof() of each structure of this header, in its order, up to `count`; returns how many there
 * are. For callers that write them down in another language. */
NEARKV_CUDA_API size_t nearkv_cuda_structures(uint32_t* bytes, size_t count);

/* ---- Attention --------------------------------------------------------------------------------
 */

/* Where rows are, in elements; a row's own elements are contiguous. */
struct nearkv_cuda_strides {
  int64_t batch;
  int64_t head;
  int64_t row;
};

/* Decode attention over a window that the GPU holds: query [batch][kv_heads][group][head_dim], key
 * and value [batch][kv_heads][tokens][dim] in BF16, FP16 or FP32, rows at multiples of 16 bytes,
 * dims multiples of 16 up to NKV_MAX_HEAD_DIM. Sequence b sees its tokens from first[b] up to
 * end[b]; null: from 0, up to `tokens`. The tokens are cut into `splits` parts: output
 * [splits][batch * kv_heads * group][value_dim] and lse, natural, without the last axis, which
 * nearkv_cuda_merge makes one. A part that sees nothing: 0 and -infinity. */
struct nearkv_cuda_attend_args {
  const void* query;
  const void* key;
  const void* value;
  const int32_t* first;
  const int32_t* end;
  float* output;
  float* lse;
  struct nearkv_cuda_strides query_strides;
  struct nearkv_cuda_strides key_strides;
  struct nearkv_cuda_strides value_strides;
  uint32_t batch;
  uint32_t kv_heads;
  uint32_t group;
  uint32_t tokens;
  uint32_t head_dim;
  uint32_t value_dim;
  uint32_t splits;
  float scale;
  float soft_cap; /* 0: none */
  uint32_t dtype; /* enum nkv_dtype */
};
NEARKV_CUDA_API uint8_t nearkv_cuda_attend(struct nearkv_cuda* gpu,
                                           const struct nearkv_cuda_attend_args* work,
                                           void* stream);
/* The greatest head_dim that it takes in a type on this GPU: it is bounded by the shared memory
 * that a block may have. What is wider is UNSUPPORTED. */
NEARKV_CUDA_API uint32_t nearkv_cuda_attend_dim(struct nearkv_cuda* gpu, uint32_t dtype);
/* Parts that keep the whole GPU busy with a window of so many tokens; `row_groups` is batch *
 * kv_heads. */
NEARKV_CUDA_API uint32_t nearkv_cuda_splits(struct nearkv_cuda* gpu, uint32_t row_groups,
                                            uint32_t tokens);

/* `count` parts of the same rows, one behind the other: output [count][rows][value_dim], lse
 * [count][rows]. */
struct nearkv_cuda_parts {
  const float* output;
  const float* lse;
  uint32_t count;
};

#define NEARKV_CUDA_MERGE_SOURCES 4

/* (O, LSE) of all parts as of one attention, output [rows][value_dim] and lse [rows], to the same
 * bits in whichever order parts are given. No part, or none that saw anything: 0 and -infinity. */
struct nearkv_cuda_merge_args {
  struct nearkv_cuda_parts source[NEARKV_CUDA_MERGE_SOURCES];
  float* output;
  float* lse;
  uint64_t rows;
  uint32_t value_dim;
  uint32_t sources;
};
NEARKV_CUDA_API uint8_t nearkv_cuda_merge(struct nearkv_cuda* gpu,
                                          const struct nearkv_cuda_merge_args* work, void* stream);

#ifdef __cplusplus
}
#endif

#endif /* NEARKV_CUDA_H_ */
