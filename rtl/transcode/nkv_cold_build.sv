// A plain page to one of codec INT8, INT4 or FP8, in its new place: payload, the zeros behind it, then the
// header, whose first 8 bytes are withheld, so that the page cannot be found yet.

`include "nkv_assert.svh"

module nkv_cold_build
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_quant_pkg::*;
  import nkv_transcode_pkg::*;
(
  input  logic           clk_i,
  input  logic           rst_ni,
  input  logic           clear_i,
  input  logic           codec_rst_ni,  // Of the encoder, which has no other way to be cleared.

  input  codec_e         codec_i,       // Held.
  input  logic [31:0]    slot_bytes_i,
  input  logic           start_i,       // A page,
  input  moving_page_t   page_i,        // held until done_o.
  output logic           done_o,        // For one cycle.
  output status_e        status_o,
  output logic [31:0]    total_bytes_o,

  output logic           run_valid_o,
  input  logic           run_ready_i,
  output plain_index_t   run_first_o,
  output plain_index_t   run_bursts_o,
  input  logic           burst_valid_i,
  output logic           burst_ready_o,
  input  burst_t         burst_i,
  output logic [ScaleBits-1:0] scale_index_o,
  input  burst_t         scales_i,      // A cycle later.

  output logic           write_valid_o,
  input  logic           write_ready_i,
  output write_request_t write_o
);

  localparam int unsigned CheckedBytes = 60;  // Each half of a header ends with its checksum.

  typedef enum logic [3:0] {
    StIdle,
    StSizes,
    StPayload,     // What it says of itself.
    StKeys,
    StValues,
    StFetchScales,
    StScales,
    StPad,
    StSum,         // Until the payload's checksum is known.
    StHotSum,
    StColdSum,
    StHeaderSums,
    StCold,        // The header's second half, then its first one.
    StHot,
    StDone
  } state_e;

  typedef enum logic [1:0] {
    InIdle,
    InKeys,
    InValues
  } in_state_e;

  state_e      state_q;
  in_state_e   in_q;
  cold_sizes_t sizes_q;
  logic [31:0] total_bytes_q, offset_q;
  logic [31:0] payload_sum_q, hot_sum_q, cold_sum_q;
  logic        summed_q, is_sum_hot_q;  // The payload is; the next sum is of the header's first half.
  logic        refused_q, begun_q, asked_q;
  logic [ScaleBits-1:0] scale_q;

  page_header_t header;
  wire has_values = page_i.header.v_form != RowFormNone;
  wire has_scales = page_i.header.flags[PageFlagKeyScales];
  wire takes_rows = page_i.header.dtype == DtypeBf16;
  wire overflows = total_bytes_q > slot_bytes_i;

  // ---- Rows to the encoder, a block for each tensor ----
  logic start_ready, in_ready, out_valid, out_ready, block_done, block_refused;
  burst_t out_data;
  logic       unused_out_last;
  logic [6:0] unused_out_bytes;
  wire feeds = in_q != InIdle;
  wire feeds_values = in_q == InValues;
  wire [15:0] feed_dim = feeds_values ? page_i.header.value_dim : page_i.header.head_dim;
  // The start of a block and the run of its rows are asked for at the same time.
  wire begins = feeds && !begun_q && start_ready;
  wire runs = run_valid_o && run_ready_i;
  wire fed = (begun_q || begins) && (asked_q || runs);

  assign run_valid_o = feeds && !asked_q;
  assign run_first_o = {feeds_values, TensorBits'(0)};
  assign run_bursts_o = plain_index_t'(last_burst(DtypeBf16, feed_dim)) + 1'b1;
  assign burst_ready_o = in_ready;

  nkv_quant_encode u_encode (
    .clk_i,
    .rst_ni       (codec_rst_ni),
    .start_valid_i(feeds && !begun_q),
    .start_ready_o(start_ready),
    .codec_i,
    .tensor_i     (feeds_values ? TensorValues : TensorKeys),
    .dim_i        (feed_dim),
    .in_bytes_i   (plain_bytes(chunks_t'(feed_dim / 16'(ChunkLanes)))),
    .in_valid_i   (burst_valid_i),
    .in_ready_o   (in_ready),
    .in_data_i    (burst_i),
    .out_valid_o  (out_valid),
    .out_ready_i  (out_ready),
    .out_data_o   (out_data),
    .out_last_o   (unused_out_last),
    .out_bytes_o  (unused_out_bytes),
    .done_o       (block_done),
    .error_o      (block_refused)
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {in_q, begun_q, asked_q} <= '0;
    end else if (clear_i) begin
      {in_q, begun_q, asked_q} <= '0;
    end else begin
      if (begins) begun_q <= 1'b1;
      if (runs) asked_q <= 1'b1;
      if (fed) begin
        {begun_q, asked_q} <= '0;
        in_q <= in_q == InKeys && has_values ? InValues : InIdle;
      end
      if (state_q == StSizes && takes_rows) in_q <= InKeys;
    end
  end

  // ---- What is written ----
  logic           write_valid_q, mutes;
  write_request_t write_q;
  wire room = !write_valid_q || write_ready_i;
  wire is_block = state_q inside {StKeys, StValues};
  wire [31:0] content_end = 32'(PageHeaderBytes) + sizes_q.payload_bytes;
  wire pad_ends = offset_q == total_bytes_q;
  logic sends;

  always_comb begin
    unique case (state_q)
      StPayload, StScales, StCold, StHot: sends = room;
      StPad: sends = room && !pad_ends;
      StKeys, StValues: sends = room && out_valid;
      default: sends = 1'b0;
    endcase
  end
  assign out_ready = is_block && room;
  assign mutes = overflows || refused_q;

  burst_t data;
  always_comb begin
    unique case (state_q)
      StPayload: begin
        data = '0;
        data[$bits(cold_payload_t)-1:0] =
            {64'd0, 32'(sizes_q.v_bytes), 32'(sizes_q.k_bytes)};
      end
      StScales: data = scales_i;
      StPad: data = '0;
      StCold: data = header[2*BurstBits-1:BurstBits];
      StHot: data = header[BurstBits-1:0];
      default: data = out_data;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (sends) begin
      write_q <= '{
          address: 64'(page_i.page) * 64'(PageGrainBytes) + 64'(offset_q),
          strobes: state_q == StHot ? HeaderRest : '1,
          data: data
      };
    end
  end
  assign write_valid_o = write_valid_q;
  assign write_o = write_q;
  assign scale_index_o = scale_q;

  // ---- Checksums ----
  wire is_content = is_block || state_q inside {StPayload, StScales};
  wire is_last_content = offset_q + 32'(BurstBytes) >= content_end;
  wire [6:0] tail_bytes =
      content_end[5:0] == '0 ? 7'(BurstBytes) : 7'(content_end[5:0]);
  wire sums_header = state_q inside {StHotSum, StColdSum};
  logic sum_valid;
  logic [31:0] sum;

  nkv_crc32c u_crc (
    .clk_i,
    .rst_ni,
    .valid_i((sends && is_content && !refused_q) || sums_header),
    .first_i(sums_header || state_q == StPayload),
    .last_i (sums_header || is_last_content),
    .data_i (state_q == StHotSum ? header[BurstBits-1:0]
             : state_q == StColdSum ? header[2*BurstBits-1:BurstBits] : data),
    .bytes_i(sums_header ? 7'(CheckedBytes) : is_last_content ? tail_bytes : 7'(BurstBytes)),
    .valid_o(sum_valid),
    .crc_o  (sum)
  );

  always_comb begin
    header = page_i.header;
    header.codec = codec_i;
    header.generation = page_i.generation;
    header.payload_bytes = sizes_q.payload_bytes;
    {header.crc_k_exponents, header.crc_k_rows, header.crc_k_exceptions} = '0;
    {header.crc_key_scales, header.crc_v_exponents, header.crc_v_rows} = '0;
    header.crc_v_exceptions = payload_sum_q;
    header.crc_hot = hot_sum_q;
    header.crc_cold = cold_sum_q;
  end

  assign total_bytes_o = total_bytes_q;
  assign done_o = state_q == StDone && !write_valid_q;
  always_comb begin
    status_o = StatusOk;
    if (!takes_rows || refused_q) status_o = StatusBadPage;
    else if (overflows) status_o = StatusPageOverflow;
  end

  // ---- Order of things ----
  wire block_ends = block_done && is_block;
  state_e behind_blocks;
  assign behind_blocks = refused_q || block_refused ? StDone : has_scales ? StFetchScales : StPad;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {state_q, sizes_q, total_bytes_q, offset_q, scale_q, write_valid_q, refused_q} <= '0;
      {payload_sum_q, hot_sum_q, cold_sum_q, summed_q, is_sum_hot_q} <= '0;
    end else if (clear_i) begin
      {state_q, write_valid_q} <= '0;
    end else begin
      if (room) write_valid_q <= sends && !mutes;
      if (sends) offset_q <= offset_q + 32'(BurstBytes);
      if (sum_valid) begin
        is_sum_hot_q <= 1'b0;
        if (state_q != StHeaderSums) begin
          payload_sum_q <= sum;
          summed_q <= 1'b1;
        end else if (is_sum_hot_q) begin
          hot_sum_q <= sum;
        end else begin
          cold_sum_q <= sum;
        end
      end
      unique case (state_q)
        StIdle: begin
          sizes_q <= cold_sizes(codec_i, page_i.header);
          {refused_q, summed_q} <= '0;
          scale_q <= '0;
          offset_q <= 32'(PageHeaderBytes);
          if (start_i) state_q <= StSizes;
        end
        StSizes: begin
          total_bytes_q <= compressed_page_bytes(sizes_q.payload_bytes);
          state_q <= takes_rows ? StPayload : StDone;
        end
        StPayload: if (room) state_q <= StKeys;
        StKeys, StValues: begin
          if (block_ends) begin
            refused_q <= refused_q || block_refused;
            state_q <= state_q == StKeys && has_values ? StValues : behind_blocks;
          end
        end
        StFetchScales: state_q <= StScales;
        StScales: begin
          if (room) begin
            scale_q <= scale_q + 1'b1;
            state_q <= scale_q == '1 ? StPad : StFetchScales;
          end
        end
        StPad: if (pad_ends) state_q <= StSum;
        StSum: if (summed_q) state_q <= StHotSum;
        StHotSum: begin
          is_sum_hot_q <= 1'b1;
          state_q <= StColdSum;
        end
        StColdSum: state_q <= StHeaderSums;
        StHeaderSums: begin
          offset_q <= 32'(BurstBytes);
          if (sum_valid && !is_sum_hot_q) state_q <= StCold;
        end
        StCold: begin
          if (room) begin
            offset_q <= '0;
            state_q <= StHot;
          end
        end
        StHot: if (room) state_q <= StDone;
        default: if (done_o) state_q <= StIdle;
      endcase
    end
  end

  wire unused = ^page_i;

  `NKV_ASSERT_STAYS(RunStays_A, run_valid_o, run_ready_i, {run_first_o, run_bursts_o}, clear_i || start_i)

endmodule
