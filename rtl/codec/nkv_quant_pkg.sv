// What the units of the lossy codecs INT8, INT4 and FP8 share.

package nkv_quant_pkg;

  import nkv_abi_pkg::*;
  import nkv_pkg::*;

  // A package offers more than any one of its users needs.
  // verilator lint_off UNUSEDPARAM

  // A row is 1 to Chunks chunks; a burst of rows holds two of them.
  localparam int unsigned ChunkLanes = 16;
  localparam int unsigned Chunks = Channels / ChunkLanes;
  localparam int unsigned ChunkBits = $clog2(Chunks);
  typedef logic [ChunkBits:0] chunks_t;
  typedef logic [ChunkBits-1:0] chunk_t;
  typedef logic [$clog2(PageTokens)-1:0] token_t;

  // A channel of K, a token of V.
  localparam int unsigned GroupBits = $clog2(Channels);
  typedef logic [GroupBits-1:0] group_t;
  localparam int unsigned ValueEntries = PageTokens / ChunkLanes;

  // Bytes of a block as a start states them.
  typedef logic [16:0] bytes_t;

  // Cycles from the inputs of these units to their outputs.
  localparam int unsigned CodeLatency = 9;
  localparam int unsigned ValueLatency = 9;
  localparam int unsigned ScaleLatency = 8;

  typedef struct packed {
    logic    refused;
    logic    is_value;
    codec_e  codec;
    chunks_t chunks;
  } quant_block_t;

  // Where the two chunks of a burst of rows stand.
  typedef struct packed {
    logic         last;   // Of the block.
    token_t [1:0] token;
    chunk_t [1:0] chunk;
  } chunk_pair_t;

  // Of a group. With FP8 the scale's byte stands in `scale`, and the rest is zero.
  typedef struct packed {
    logic [22:0] reciprocal;  // Of 1 / scale as binary32, the significand without its leading bit.
    logic [15:0] scale;
    logic [15:0] zero;
  } quant_parameters_t;

  // A block of these is one that this build takes.
  function automatic logic is_shape(codec_e codec, tensor_e tensor, logic [15:0] dim);
    return codec inside {CodecInt8, CodecInt4, CodecFp8} &&
        tensor inside {TensorKeys, TensorValues} && dim != '0 && dim <= 16'(Channels) &&
        dim[3:0] == '0;
  endfunction

  function automatic bytes_t plain_bytes(chunks_t chunks);
    return bytes_t'(chunks) * bytes_t'(2 * PageTokens * ChunkLanes);
  endfunction

  // Chunks of 16 groups.
  function automatic chunks_t parameter_entries(logic is_value, chunks_t chunks);
    return is_value ? chunks_t'(ValueEntries) : chunks;
  endfunction

  function automatic bytes_t code_bytes(codec_e codec, chunks_t chunks);
    bytes_t bytes = bytes_t'(chunks) * bytes_t'(PageTokens * ChunkLanes);
    return codec == CodecInt4 ? bytes >> 1 : bytes;
  endfunction

  function automatic bytes_t encoded_bytes(codec_e codec, logic is_value, chunks_t chunks);
    bytes_t groups = bytes_t'(parameter_entries(is_value, chunks)) * bytes_t'(ChunkLanes);
    return (codec == CodecFp8 ? groups : groups << 2) + code_bytes(codec, chunks);
  endfunction

  // bf16 patterns in the order of their values, as unsigned numbers, and back.
  function automatic logic [15:0] key_of(logic [15:0] bits);
    return bits[15] ? ~bits : {1'b1, bits[14:0]};
  endfunction

  function automatic logic [15:0] bits_of(logic [15:0] key);
    return key[15] ? {1'b0, key[14:0]} : ~key;
  endfunction

  // Subnormals, and -0, as +0.
  function automatic logic [15:0] flushed(logic [15:0] bits);
    return bits[14:7] == '0 ? '0 : bits;
  endfunction

  // verilator lint_on UNUSEDPARAM

endpackage
