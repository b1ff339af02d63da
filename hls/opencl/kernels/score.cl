// S of tokens for every row (1.5): a work item each. `exponents` has `channels` bytes a page where rows
// are DELTA4; scores are [token][row].
__kernel void score(__global const uchar* rows, uint row_bytes, uint channels, int is_delta4,
                    int dtype, __global const uchar* exponents, __global const int* query,
                    int key_exponent, __global long* scores) {
  const size_t token = get_global_id(0);
  const size_t row = get_global_id(1);
  row_form form;
  form.row_bytes = row_bytes;
  form.channels = channels;
  form.is_delta4 = is_delta4;
  form.dtype = dtype;
  __global const uchar* stored = rows + token * row_bytes;
  __global const uchar* of_page = exponents + token / NKV_PAGE_TOKENS * channels;
  long sum = 0;
  for (uint c = 0; c < channels; ++c) {
    const long key = key_integer(element_of(stored, form, c, of_page), key_exponent);
    sum += query[row * channels + c] * key;
  }
  scores[token * get_global_size(1) + row] = sum;
}
