// The body of a page of codec PLANES_LZ4 or PLANES_ZSTD to plain rows. A tensor's rows are written while
// the next one's block comes in. What is not what its header or its directories say fails; all its bursts
// are taken either way.
//
//   bursts --> planes_block: sections, through their decoder --> planes_rows: planes turned --> rows

module nkv_planes_open
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::dim_t;
  import nkv_planes_pkg::*;
  import nkv_transcode_pkg::*;
(
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         clear_i,
  input  logic         codec_rst_ni,  // Of the decoders, which have no other way to be cleared.

  input  logic         start_i,       // A page,
  input  page_header_t header_i,      // held until done_o.
  output logic         done_o,        // All rows have been written, or it failed; so until the next start.
  output logic         failed_o,      // With done_o.

  input  logic         beat_valid_i,  // All bursts of its payload.
  output logic         beat_ready_o,
  input  read_beat_t   beat_i,

  output plain_write_t write_o
);

  typedef enum logic [2:0] {
    StIdle,
    StPayload,  // What it says of itself.
    StBegin,
    StBlock,    // A tensor's block,
    StTurn,     // whose rows follow once the other tensor's are written.
    StScales,
    StRows,     // Until all rows have been written.
    StDrop      // What is left of a page that failed.
  } state_e;

  state_e       state_q;
  logic         values_q;   // The block is the values'.
  logic         ended_q;    // The body's last burst has been taken.
  logic         failed_q;
  block_bytes_t key_bytes_q, value_bytes_q;
  logic [ScaleBits-1:0] scale_q;

  wire has_values = header_i.v_form != RowFormNone;
  wire has_scales = header_i.flags[PageFlagKeyScales];
  wire cold_payload_t payload = cold_payload_t'(beat_i.data[$bits(cold_payload_t)-1:0]);
  wire is_right = (payload.k_bytes | payload.v_bytes) >> BlockBits == '0 &&
      header_i.payload_bytes == cold_payload_bytes(header_i, payload.k_bytes, payload.v_bytes) &&
      (has_values || payload.v_bytes == '0) && payload.reserved == '0;

  wire takes = beat_valid_i && beat_ready_o;
  wire ends = ended_q || (takes && beat_i.last);

  logic block_done, block_failed, block_ready, rows_ready;
  part_write_t  part_write;
  plain_write_t row_write;

  nkv_planes_block u_block (
    .clk_i,
    .rst_ni,
    .clear_i,
    .codec_rst_ni,
    .start_i      (state_q == StBegin),
    .is_zstd_i    (header_i.codec == CodecPlanesZstd),
    .dtype_i      (header_i.dtype),
    .dim_i        (values_q ? dim_t'(header_i.value_dim) : dim_t'(header_i.head_dim)),
    .bytes_i      (values_q ? value_bytes_q : key_bytes_q),
    .done_o       (block_done),
    .failed_o     (block_failed),
    .burst_valid_i(beat_valid_i && state_q == StBlock),
    .burst_ready_o(block_ready),
    .burst_i      (beat_i.data),
    .write_o      (part_write)
  );

  nkv_planes_rows u_rows (
    .clk_i,
    .rst_ni,
    .clear_i,
    .part_values_i(values_q),
    .part_i       (part_write),
    .start_i      (state_q == StTurn && rows_ready),
    .ready_o      (rows_ready),
    .values_i     (values_q),
    .pairs_i      (header_i.codec == CodecPlanesZstd),
    .dtype_i      (header_i.dtype),
    .dim_i        (values_q ? dim_t'(header_i.value_dim) : dim_t'(header_i.head_dim)),
    .write_o      (row_write)
  );

  wire takes_scales = takes && state_q == StScales;
  always_comb begin
    unique case (state_q)
      StPayload: beat_ready_o = 1'b1;
      StBlock: beat_ready_o = block_ready;
      StScales: beat_ready_o = !row_write.valid;
      StDrop: beat_ready_o = !ended_q;
      default: beat_ready_o = 1'b0;
    endcase
    write_o = row_write;
    if (takes_scales) begin
      write_o.valid = 1'b1;
      write_o.scales = 1'b1;
      write_o.index = plain_index_t'(scale_q);
      write_o.data = beat_i.data;
    end
  end

  assign done_o = state_q == StIdle;
  assign failed_o = failed_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {state_q, values_q, ended_q, failed_q, key_bytes_q, value_bytes_q, scale_q} <= '0;
    end else if (clear_i || start_i) begin
      state_q <= start_i && !clear_i ? StPayload : StIdle;
      {values_q, ended_q, failed_q, scale_q} <= '0;
    end else begin
      ended_q <= ends;
      if (takes_scales) scale_q <= scale_q + 1'b1;
      unique case (state_q)
        StIdle: ;
        StPayload: begin
          key_bytes_q <= block_bytes_t'(payload.k_bytes);
          value_bytes_q <= block_bytes_t'(payload.v_bytes);
          if (takes) begin
            state_q <= is_right ? StBegin : StDrop;
            failed_q <= !is_right;
          end
        end
        StBegin: state_q <= StBlock;
        StBlock: begin
          if (block_done) begin
            state_q <= block_failed ? StDrop : StTurn;
            failed_q <= block_failed;
          end
        end
        StTurn: begin
          if (rows_ready) begin
            values_q <= 1'b1;
            if (has_values && !values_q) state_q <= StBegin;
            else state_q <= has_scales ? StScales : StRows;
          end
        end
        StScales: if (ends) state_q <= StRows;
        StRows: if (rows_ready) state_q <= StIdle;
        default: if (ends && rows_ready) state_q <= StIdle;
      endcase
    end
  end

  wire unused = ^{header_i, beat_i};

endmodule
