// What the modules of TRANSCODE share. Between its old form and its new one a page is plain: the rows of
// both tensors as APPEND took them, token-major, without a gap, in bursts.

package nkv_transcode_pkg;

  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_quant_pkg::*;

  // A package offers more than any one of its users needs.
  // verilator lint_off UNUSEDPARAM

  // Bursts of the largest tensor of a page.
  localparam int unsigned TensorBursts = PageTokens * 2 * Channels / BurstBytes;
  localparam int unsigned TensorBits = $clog2(TensorBursts);
  typedef logic [TensorBits-1:0] tensor_index_t;
  // A burst of a plain page: the tensor, values' bit set, and its place there.
  localparam int unsigned PlainBits = TensorBits + 1;
  typedef logic [PlainBits-1:0] plain_index_t;
  // KEY_SCALES of a page.
  localparam int unsigned ScaleBursts = 4 * PageTokens / BurstBytes;
  localparam int unsigned ScaleBits = $clog2(ScaleBursts);

  // Elements of two bytes are written each by itself.
  localparam int unsigned BurstHalves = BurstBits / 16;
  typedef struct packed {
    logic                   valid;
    logic                   scales;  // To the key scales instead.
    plain_index_t           index;
    logic [BurstHalves-1:0] halves;
    burst_t                 data;
  } plain_write_t;

  // A source page whose body is to come, and where its new form goes.
  typedef struct packed {
    page_header_t header;
    page_index_t  index;       // In the command's list.
    logic         empty;       // Its body has no burst.
    page_array_t  last_array;  // Else this array's last burst is the body's.
    logic [31:0]  page;
    logic [15:0]  generation;
  } moving_page_t;

  // A page that stands in its new place, but for the word that makes it one.
  typedef struct packed {
    page_index_t index;
    logic [7:0]  k_exponent;
    logic [7:0]  v_exponent;
    logic [31:0] total_bytes;
  } made_page_t;

  // A compressed page of a codec whose blocks have fixed sizes.
  typedef struct packed {
    bytes_t      k_bytes;
    bytes_t      v_bytes;
    logic [31:0] payload_bytes;
  } cold_sizes_t;

  // verilator lint_on UNUSEDPARAM

  // Bursts of a tensor's plain rows, less one.
  function automatic tensor_index_t last_burst(dtype_e dtype, logic [15:0] dim);
    return tensor_index_t'(32'(dim) * element_bytes(dtype) * PageTokens / BurstBytes - 32'd1);
  endfunction

  // Of a header only what decides these.
  // verilator lint_off UNUSEDSIGNAL
  // A compressed page's payload with blocks of these sizes.
  function automatic logic [31:0] cold_payload_bytes(page_header_t header, logic [31:0] k_bytes,
                                                     logic [31:0] v_bytes);
    automatic logic has_values = header.v_form != RowFormNone;
    automatic logic has_scales = header.flags[PageFlagKeyScales];
    automatic logic [31:0] blocks;
    blocks = has_values ? (32'(bursts_of(k_bytes)) << $clog2(BurstBytes)) + v_bytes : k_bytes;
    if (has_scales) begin
      blocks = (32'(bursts_of(blocks)) << $clog2(BurstBytes)) + 32'(4 * PageTokens);
    end
    return 32'(BurstBytes) + blocks;
  endfunction

  function automatic cold_sizes_t cold_sizes(codec_e codec, page_header_t header);
    automatic logic has_values = header.v_form != RowFormNone;
    automatic chunks_t k_chunks = chunks_t'(header.head_dim / 16'(ChunkLanes));
    automatic chunks_t v_chunks = chunks_t'(header.value_dim / 16'(ChunkLanes));
    automatic cold_sizes_t sizes;
    sizes.k_bytes = encoded_bytes(codec, 1'b0, k_chunks);
    sizes.v_bytes = has_values ? encoded_bytes(codec, 1'b1, v_chunks) : '0;
    sizes.payload_bytes = cold_payload_bytes(header, 32'(sizes.k_bytes), 32'(sizes.v_bytes));
    return sizes;
  endfunction

  // What this build can take of a page whatever it becomes.
  function automatic logic is_offered(page_header_t header);
    return ReadCodecs[header.codec[3:0]] && header.head_dim <= 16'(Channels) &&
        header.value_dim <= 16'(Channels);
  endfunction
  // verilator lint_on UNUSEDSIGNAL

endpackage
