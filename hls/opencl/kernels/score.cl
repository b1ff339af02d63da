// S of tokens for every row (1.5): a work item each. `pages` holds each token's page among those of
// `exponents`, which has `channels` bytes a page where rows are DELTA4; scores are [token][row].
__kernel void score(__global const uchar* rows, uint tokens, uint row_bytes, uint channels,
                    int is_delta4, int dtype, __global const uchar* exponents,
                    __global const uint* pages, __global const int* query, int key_exponent,
                    __global long* scores) {
  const size_t token = get_global_id(0);
  const size_t row = get_global_id(1);
  if (token >= tokens) return;
  row_form form;
  form.row_bytes = row_bytes;
  form.channels = channels;
  form.is_delta4 = is_delta4;
  form.dtype = dtype;
  __global const uchar* stored = rows + token * row_bytes;
  __global const uchar* of_page = exponents + (size_t)pages[token] * channels;
  long sum = 0;
  for (uint c = 0; c < channels; ++c) {
    const long key = key_integer(element_of(stored, form, c, of_page), key_exponent);
    sum += query[row * channels + c] * key;
  }
  scores[token * get_global_size(1) + row] = sum;
}
