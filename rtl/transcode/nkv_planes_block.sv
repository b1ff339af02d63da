// A block of codec PLANES_LZ4 or PLANES_ZSTD to the parts of its tensor: its directory, then section after
// section, of zeros, as it is, or through the codec's decoder. Sections lie without gaps: a burst in which
// one ends is left for the one behind it. Bursts of parts leave as they come.

module nkv_planes_block
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_exact_pkg::dim_t;
  import nkv_planes_pkg::*;
(
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         clear_i,
  input  logic         codec_rst_ni,

  input  logic         start_i,        // A block,
  input  logic         is_zstd_i,      // these held until done_o.
  input  dtype_e       dtype_i,
  input  dim_t         dim_i,
  input  block_bytes_t bytes_i,
  output logic         done_o,         // For one cycle: all is written and its bursts were taken,
  output logic         failed_o,       // or it is none, and some were not.

  input  logic         burst_valid_i,
  output logic         burst_ready_o,
  input  burst_t       burst_i,

  output part_write_t  write_o
);

  typedef enum logic [2:0] {
    StIdle,
    StDirectory,
    StSection,   // What the directory says of the next one:
    StZeros,
    StPlain,
    StExpand,
    StEnd
  } state_e;

  typedef enum logic [2:0] {
    SeReferences,
    SeHigh,      // Exponent bits above the low ones.
    SeLow,
    SeSign,
    SeMantissa
  } section_e;

  localparam int unsigned OffsetBits = $clog2(BurstBytes);

  state_e       state_q;
  section_e     section_q;
  plane_t       plane_q;           // The next one, but for the sign's,
  plane_t       first_plane_q;     // and the section's first.
  part_index_t  index_q;           // Its burst that comes next.
  logic [15:0]  directory_q[MaxSections];
  logic [OffsetBits-1:0] skip_q;   // Where the section begins in its first burst.
  block_bytes_t left_q;            // Of the block, from the section on.
  logic [13:0]  plain_left_q;      // Of the section, plain.
  logic [8:0]   bursts_left_q;     // Of it as it is stored, behind the one at hand.
  logic         begun_q, failed_q;

  // ---- Sections ----
  wire element_format_t format = element_format(dtype_i);
  wire plane_t top_exponent = plane_t'(format.exponent_bits + format.mantissa_bits - 4'd1);
  wire [3:0] high_bits = format.exponent_bits - 4'(LowBits);
  wire has_high = high_bits != '0;
  wire [4:0] sections = 5'd1 + 5'(has_high) + (is_zstd_i ? 5'd1 : 5'(LowBits)) +
      5'(format.has_sign) + 5'(format.mantissa_bits);
  wire block_bytes_t directory_bytes = block_bytes_t'({sections, 1'b0});
  wire [13:0] plane_bytes = {3'b0, dim_i, 3'b0};
  wire part_index_t plane_last = part_index_t'(dim_i >> 3) - 1'b1;

  wire is_pairs = section_q == SeLow && is_zstd_i;
  logic [13:0] plain_bytes;
  always_comb begin
    unique case (section_q)
      SeReferences: plain_bytes = 14'(dim_i);
      SeHigh: plain_bytes = plane_bytes * 14'(high_bits);
      SeLow: plain_bytes = is_zstd_i ? plane_bytes << 2 : plane_bytes;
      default: plain_bytes = plane_bytes;
    endcase
  end

  wire [15:0] stored = directory_q[0];
  wire is_wrong = stored > 16'(left_q) || stored > 16'(plain_bytes);
  wire [15:0] stored_end = 16'(skip_q) + stored;
  // Its last burst has nothing of the next section.
  wire ends_with_burst = stored_end[OffsetBits-1:0] == '0;

  wire ends_plane = write_o.valid && write_o.part == PartPlanes && index_q == plane_last;
  section_e section_after;
  logic     is_last_section;
  always_comb begin
    is_last_section = 1'b0;
    section_after = section_q;
    unique case (section_q)
      SeReferences: section_after = has_high ? SeHigh : SeLow;
      SeHigh: section_after = SeLow;
      SeLow: begin
        if (is_zstd_i || first_plane_q == plane_t'(format.mantissa_bits)) begin
          section_after = format.has_sign ? SeSign : SeMantissa;
        end
      end
      SeSign: section_after = SeMantissa;
      default: is_last_section = first_plane_q == '0;
    endcase
  end

  // ---- Plain sections: bytes of two bursts to one ----
  logic   carried_q;             // The burst before the one at hand is,
  logic [7:0] carry_q[BurstBytes];
  // All that is left stands in one burst.
  wire is_aligned = skip_q == '0;
  wire [6:0] room = 7'(BurstBytes) - 7'(skip_q);
  wire alone = is_aligned || plain_left_q <= 14'(room);
  wire is_last_plain = plain_left_q <= 14'(BurstBytes);
  wire alone_after = plain_left_q <= 14'(BurstBytes) + 14'(room);
  wire plain_writes = state_q == StPlain && burst_valid_i && (carried_q || alone);
  logic plain_takes;
  always_comb begin
    if (!carried_q && !alone) plain_takes = 1'b1;
    else if (carried_q) plain_takes = !alone_after;
    else plain_takes = is_aligned ? !is_last_plain || ends_with_burst
        : plain_left_q == 14'(room);
  end

  burst_t plain_data;
  logic [7:0] joined[BurstBytes];
  logic [7:0] by_16[BurstBytes];
  logic [7:0] by_4[BurstBytes];
  wire [OffsetBits-1:0] turn = state_q == StPlain ? skip_q : '0;
  always_comb begin
    for (int unsigned i = 0; i < BurstBytes; i++) begin
      joined[i] = carried_q && 6'(i) >= turn ? carry_q[i] : burst_i[8*i+:8];
    end
    for (int unsigned i = 0; i < BurstBytes; i++) by_16[i] = joined[6'(i)+{turn[5:4], 4'd0}];
    for (int unsigned i = 0; i < BurstBytes; i++) by_4[i] = by_16[6'(i)+{2'd0, turn[3:2], 2'd0}];
    for (int unsigned i = 0; i < BurstBytes; i++) plain_data[8*i+:8] = by_4[6'(i)+{4'd0, turn[1:0]}];
  end

  always_ff @(posedge clk_i) begin
    if (state_q == StPlain && burst_valid_i) begin
      for (int unsigned i = 0; i < BurstBytes; i++) carry_q[i] <= burst_i[8*i+:8];
    end
  end

  // ---- Compressed sections ----
  logic expand_ready, expanded, expand_failed;
  logic lz4_start_ready, lz4_ready, lz4_valid, lz4_last, lz4_done, lz4_failed, lz4_clk;
  logic zstd_start_ready, zstd_ready, zstd_valid, zstd_last, zstd_done, zstd_failed, zstd_clk;
  logic [6:0] lz4_bytes, zstd_bytes;
  burst_t lz4_data, zstd_data;
  wire expands = state_q == StExpand;

  nkv_idle_clock u_lz4_clock (
    .clk_i,
    .rst_ni,
    .busy_i(expands && !is_zstd_i),
    .clk_o (lz4_clk)
  );

  nkv_lz4_decode u_lz4 (
    .clk_i        (lz4_clk),
    .rst_ni       (codec_rst_ni),
    .start_valid_i(expands && !is_zstd_i && !begun_q),
    .start_ready_o(lz4_start_ready),
    .skip_i       (skip_q),
    .in_bytes_i   (17'(stored)),
    .plain_bytes_i(17'(plain_bytes)),
    .in_valid_i   (expands && !is_zstd_i && burst_valid_i),
    .in_ready_o   (lz4_ready),
    .in_data_i    (burst_i),
    .out_valid_o  (lz4_valid),
    .out_ready_i  (1'b1),
    .out_data_o   (lz4_data),
    .out_last_o   (lz4_last),
    .out_bytes_o  (lz4_bytes),
    .done_o       (lz4_done),
    .error_o      (lz4_failed)
  );

  nkv_idle_clock u_zstd_clock (
    .clk_i,
    .rst_ni,
    .busy_i(expands && is_zstd_i),
    .clk_o (zstd_clk)
  );

  nkv_zstd_decode u_zstd (
    .clk_i        (zstd_clk),
    .rst_ni       (codec_rst_ni),
    .start_valid_i(expands && is_zstd_i && !begun_q),
    .start_ready_o(zstd_start_ready),
    .skip_i       (skip_q),
    .in_bytes_i   (17'(stored)),
    .plain_bytes_i(17'(plain_bytes)),
    .in_valid_i   (expands && is_zstd_i && burst_valid_i),
    .in_ready_o   (zstd_ready),
    .in_data_i    (burst_i),
    .out_valid_o  (zstd_valid),
    .out_ready_i  (1'b1),
    .out_data_o   (zstd_data),
    .out_last_o   (zstd_last),
    .out_bytes_o  (zstd_bytes),
    .done_o       (zstd_done),
    .error_o      (zstd_failed)
  );

  assign expand_ready = is_zstd_i ? zstd_ready : lz4_ready;
  assign expanded = expands && (is_zstd_i ? zstd_done : lz4_done);
  assign expand_failed = is_zstd_i ? zstd_failed : lz4_failed;
  wire expand_starts = expands && !begun_q && (is_zstd_i ? zstd_start_ready : lz4_start_ready);

  // ---- Bursts in, bursts out ----
  wire is_wrong_end = left_q != '0;
  always_comb begin
    unique case (state_q)
      StPlain: burst_ready_o = plain_takes;
      StExpand: burst_ready_o = expand_ready && (bursts_left_q != '0 || ends_with_burst);
      StEnd: burst_ready_o = !failed_q && !is_wrong_end && skip_q != '0;
      default: burst_ready_o = 1'b0;
    endcase
    write_o = '{
        valid: 1'b0,
        part: section_q == SeReferences ? PartReferences : is_pairs ? PartPairs : PartPlanes,
        plane: section_q == SeSign ? top_exponent + 1'b1 : plane_q,
        index: index_q,
        data: '0
    };
    unique case (state_q)
      StZeros: write_o.valid = 1'b1;
      StPlain: begin
        write_o.valid = plain_writes;
        write_o.data = plain_data;
      end
      StExpand: begin
        write_o.valid = is_zstd_i ? zstd_valid : lz4_valid;
        write_o.data = is_zstd_i ? zstd_data : lz4_data;
      end
      default: ;
    endcase
  end

  assign failed_o = failed_q || is_wrong_end;
  assign done_o = state_q == StEnd && (failed_o || skip_q == '0 || burst_valid_i);

  // ---- Order of things ----
  wire ends_section = expands ? expanded && !expand_failed
      : state_q inside {StZeros, StPlain} && write_o.valid && is_last_plain;

  always_ff @(posedge clk_i) begin
    if (state_q == StDirectory && burst_valid_i) begin
      for (int unsigned i = 0; i < MaxSections; i++) directory_q[i] <= burst_i[16*i+:16];
    end
    if (ends_section) begin
      for (int unsigned i = 1; i < MaxSections; i++) directory_q[i-1] <= directory_q[i];
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {state_q, section_q, plane_q, first_plane_q, index_q, skip_q, left_q} <= '0;
      {plain_left_q, bursts_left_q, begun_q, failed_q, carried_q} <= '0;
    end else if (clear_i) begin
      state_q <= StIdle;
    end else begin
      if (write_o.valid) begin
        index_q <= ends_plane ? '0 : index_q + 1'b1;
        if (ends_plane && section_q != SeSign) plane_q <= plane_q - 1'b1;
        plain_left_q <= plain_left_q - 14'(BurstBytes);
      end
      unique case (state_q)
        StIdle: begin
          section_q <= SeReferences;
          plane_q <= top_exponent;
          failed_q <= 1'b0;
          left_q <= bytes_i - directory_bytes;
          skip_q <= OffsetBits'(directory_bytes);
          if (start_i) state_q <= StDirectory;
        end
        StDirectory: begin
          failed_q <= bytes_i < directory_bytes;
          if (bytes_i < directory_bytes) state_q <= StEnd;
          else if (burst_valid_i) state_q <= StSection;
        end
        StSection: begin
          first_plane_q <= plane_q;
          index_q <= '0;
          plain_left_q <= plain_bytes;
          bursts_left_q <= 9'((stored_end - 16'd1) >> OffsetBits);
          {begun_q, carried_q} <= '0;
          failed_q <= is_wrong;
          if (is_wrong) state_q <= StEnd;
          else if (stored == '0) state_q <= StZeros;
          else state_q <= stored == 16'(plain_bytes) ? StPlain : StExpand;
        end
        StPlain: if (burst_valid_i) carried_q <= carried_q ? !alone_after : !alone;
        StExpand: begin
          if (expand_starts) begun_q <= 1'b1;
          if (burst_valid_i && burst_ready_o) bursts_left_q <= bursts_left_q - 1'b1;
          if (expanded && expand_failed) begin
            failed_q <= 1'b1;
            state_q <= StEnd;
          end
        end
        StEnd: if (done_o) state_q <= StIdle;
        default: ;
      endcase
      if (ends_section) begin
        section_q <= section_after;
        if (is_pairs) plane_q <= plane_q - plane_t'(LowBits);
        skip_q <= stored_end[OffsetBits-1:0];
        left_q <= left_q - block_bytes_t'(stored);
        state_q <= is_last_section ? StEnd : StSection;
      end
    end
  end

  wire unused = ^{lz4_last, lz4_bytes, zstd_last, zstd_bytes};

endmodule
