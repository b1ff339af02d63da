// Encodes blocks of bf16 rows as INT8, INT4 or FP8: FORMATS.md, to the bit as the host library does.
//
// A start states a block and how many bytes come for it: the rows, token-major, in whole bursts. The
// block leaves in bursts of 64 bytes; the last is marked, and filled up with zeros behind the bytes
// that count. done_o stands for one cycle when it has been taken. A shape that this build does not
// take, another size than the rows', an element that is not finite, or with INT8 and INT4 one of
// 2^126 or more: error_o stands with done_o, and nothing came out. Whatever comes in, all of the
// stated bytes' bursts are taken. A block may be started while others are under way; their ends come
// in the order of their starts.
//
// Speed: rows come in at a burst per cycle; once all of a block have come its parameters are made,
// one per cycle, then its codes at a burst of rows per cycle. Blocks follow each other through these
// without a gap, except V blocks of fewer than 32 channels, 64 cycles each.

`include "nkv_assert.svh"

module nkv_quant_encode
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_quant_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,

  input  logic        start_valid_i,
  output logic        start_ready_o,
  input  codec_e      codec_i,
  input  tensor_e     tensor_i,
  input  logic [15:0] dim_i,
  input  bytes_t      in_bytes_i,

  input  logic        in_valid_i,
  output logic        in_ready_o,
  input  burst_t      in_data_i,

  output logic        out_valid_o,
  input  logic        out_ready_i,
  output burst_t      out_data_o,
  output logic        out_last_o,
  output logic [6:0]  out_bytes_o,

  output logic        done_o,
  output logic        error_o
);

  localparam int unsigned Slots = 4;         // Blocks whose ranges or parameters are kept.
  localparam int unsigned SlotBits = $clog2(Slots);
  localparam int unsigned Kept = 512;        // Bursts of rows that are kept: two blocks' at least.
  localparam int unsigned RowBits = $clog2(Kept);
  localparam int unsigned Codes = 32;        // Bursts of codes that wait,
  localparam int unsigned CodesUnderWay = 12;  // and that may become of what was read.
  localparam int unsigned ReadLatency = 2;
  typedef logic [SlotBits-1:0] slot_t;
  typedef logic [11:0] count_t;

  typedef struct packed {
    logic         has_rows;                  // They are kept.
    quant_block_t kind;
  } work_t;

  // ---- First pass: rows come, are kept, and have their ranges found -----------------------------
  typedef enum logic [1:0] {Idle, Take, Drain} state_e;
  state_e state_q;
  quant_block_t block_q;
  count_t left_q;                            // Bursts to come.
  slot_t range_slot_q;
  logic [SlotBits:0] ranges_used_q;
  logic [RowBits:0] rows_used_q;
  logic [RowBits-1:0] row_in_q, row_out_q;
  logic ranged, range_frees, row_frees, rows_dropped;
  logic [RowBits:0] rows_of_dropped;

  quant_block_t started;
  always_comb begin
    started.is_value = tensor_i == TensorValues;
    started.codec = codec_i;
    started.chunks = chunks_t'(dim_i >> $clog2(ChunkLanes));
    started.refused = !is_shape(codec_i, tensor_i, dim_i) ||
        in_bytes_i != plain_bytes(started.chunks);
  end
  assign start_ready_o = state_q == Idle && ranges_used_q != (SlotBits + 1)'(Slots);
  wire starts = start_valid_i && start_ready_o;

  assign in_ready_o = state_q == Take ? !rows_used_q[RowBits] : state_q == Drain && left_q != '0;
  wire takes = in_valid_i && in_ready_o;
  wire keeps = takes && state_q == Take;
  wire drained = state_q == Drain && left_q == '0;

  chunk_pair_t in_place, range_place;
  nkv_quant_places u_in_places (
    .clk_i, .rst_ni, .chunks_i(block_q.chunks), .step_i(keeps), .place_o(in_place)
  );
  always_comb begin
    range_place = in_place;
    if (drained) range_place.last = 1'b1;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Idle;
      left_q <= '0;
      block_q <= '0;
      range_slot_q <= '0;
      ranges_used_q <= '0;
      rows_used_q <= '0;
      row_in_q <= '0;
      row_out_q <= '0;
    end else begin
      ranges_used_q <= ranges_used_q + (SlotBits + 1)'(starts) - (SlotBits + 1)'(range_frees);
      rows_used_q <= rows_used_q + (RowBits + 1)'(keeps) - (RowBits + 1)'(row_frees) -
          (rows_dropped ? rows_of_dropped : '0);
      if (keeps) row_in_q <= row_in_q + 1'b1;
      row_out_q <= row_out_q + RowBits'(row_frees) +
          (rows_dropped ? RowBits'(rows_of_dropped) : '0);
      if (takes) left_q <= left_q - 1'b1;
      unique case (state_q)
        Idle: begin
          if (starts) begin
            block_q <= started;
            left_q <= count_t'((18'(in_bytes_i) + 18'(BurstBytes - 1)) >> $clog2(BurstBytes));
            state_q <= started.refused ? Drain : Take;
          end
        end
        Take: if (takes && left_q == 12'd1) state_q <= Idle;
        default: if (left_q == '0) state_q <= Idle;
      endcase
      if ((keeps && in_place.last) || drained) range_slot_q <= range_slot_q + 1'b1;
    end
  end

  (* ram_style = "block" *) burst_t rows[Kept];
  burst_t row_q[ReadLatency];
  always_ff @(posedge clk_i) if (keeps) rows[row_in_q] <= in_data_i;
  always_ff @(posedge clk_i) begin
    row_q[0] <= rows[row_out_q];
    row_q[1] <= row_q[0];
  end

  // ---- Ranges become parameters -----------------------------------------------------------------
  localparam int unsigned ScaleSteps = 2 + ScaleLatency;
  typedef struct packed {
    logic   last;
    slot_t  slot;
    group_t group;
    work_t  work;
  } group_place_t;

  quant_block_t ranged_block;
  work_t ranging, scaled;
  logic has_ranges, ranged_ready, scaled_valid, scaled_ready, codes_last, codes_end;
  logic [$clog2(Slots):0] unused_ranged, unused_scaled;
  logic ranged_has_rows;
  slot_t read_slot_q, scale_slot_q;
  group_t group_q;
  logic [SlotBits:0] scales_used_q;
  logic [15:0] least, greatest;
  quant_parameters_t parameters;
  codec_e scale_codec_q[2];

  nkv_quant_ranges #(.Slots(Slots)) u_ranges (
    .clk_i, .rst_ni,
    .valid_i(keeps || drained), .place_i(range_place), .block_i(block_q), .slot_i(range_slot_q),
    .data_i(in_data_i), .done_o(ranged), .block_o(ranged_block),
    .read_slot_i(read_slot_q), .is_value_i(ranging.kind.is_value),
    .is_odd_i(ranging.kind.chunks[0]), .group_i(group_q),
    .least_o(least), .greatest_o(greatest)
  );

  // A block that was refused before any row came has none.
  nkv_delay #(.Width(1), .Cycles(7)) u_has_rows (
    .clk_i, .data_i(!drained), .data_o(ranged_has_rows)
  );
  nkv_fifo #(.T(work_t), .Depth(Slots)) u_ranged (
    .clk_i, .rst_ni, .clear_i(1'b0),
    .in_valid_i(ranged), .in_ready_o(ranged_ready),
    .in_data_i('{has_rows: ranged_has_rows, kind: ranged_block}),
    .out_valid_o(has_ranges), .out_ready_i(range_frees), .out_data_o(ranging),
    .used_o(unused_ranged)
  );

  wire group_t last_group = ranging.kind.is_value ?
      group_t'(PageTokens - 1) : {chunk_t'(ranging.kind.chunks - 1'b1), 4'hF};
  wire makes = has_ranges && (group_q != '0 || scales_used_q != (SlotBits + 1)'(Slots));
  assign range_frees = makes && (group_q == last_group || ranging.kind.refused);
  logic [ScaleSteps-1:0] made_q;
  group_place_t made, made_place;
  assign made = '{last: range_frees, slot: scale_slot_q, group: group_q, work: ranging};

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      read_slot_q <= '0;
      scale_slot_q <= '0;
      group_q <= '0;
      scales_used_q <= '0;
      made_q <= '0;
    end else begin
      made_q <= {made_q[ScaleSteps-2:0], makes};
      if (makes) group_q <= range_frees ? '0 : group_q + 1'b1;
      if (range_frees) begin
        read_slot_q <= read_slot_q + 1'b1;
        scale_slot_q <= scale_slot_q + 1'b1;
      end
      scales_used_q <= scales_used_q + (SlotBits + 1)'(makes && group_q == '0) -
          (SlotBits + 1)'(codes_end);
    end
  end
  always_ff @(posedge clk_i) scale_codec_q <= '{ranging.kind.codec, scale_codec_q[0]};

  nkv_quant_scale u_scale (
    .clk_i, .least_i(least), .greatest_i(greatest), .codec_i(scale_codec_q[1]),
    .parameters_o(parameters)
  );
  nkv_delay #(.Width($bits(group_place_t)), .Cycles(ScaleSteps)) u_made (
    .clk_i, .data_i(made), .data_o(made_place)
  );
  wire made_valid = made_q[ScaleSteps-1];

  nkv_fifo #(.T(work_t), .Depth(Slots)) u_scaled (
    .clk_i, .rst_ni, .clear_i(1'b0),
    .in_valid_i(made_valid && made_place.last), .in_ready_o(scaled_ready),
    .in_data_i(made_place.work),
    .out_valid_o(scaled_valid), .out_ready_i(codes_last), .out_data_o(scaled),
    .used_o(unused_scaled)
  );

  // ---- Second pass: rows become codes -----------------------------------------------------------
  localparam int unsigned CodeSteps = ReadLatency + CodeLatency;
  typedef struct packed {
    codec_e  codec;
    chunks_t chunks;
    chunk_t  chunk;
  } code_place_t;

  slot_t code_slot_q, entry_slot_q;
  chunk_pair_t out_place;
  logic [$clog2(Codes):0] codes_waiting;
  logic is_begun_q;                          // The block is known to the output.
  wire has_room = codes_waiting < ($clog2(Codes) + 1)'(Codes - CodesUnderWay);
  wire reads = scaled_valid && !scaled.kind.refused && has_room;
  wire drops = scaled_valid && scaled.kind.refused;
  assign codes_last = drops || (reads && out_place.last);
  assign row_frees = reads;
  assign rows_dropped = drops && scaled.has_rows;
  assign rows_of_dropped = (RowBits + 1)'(scaled.kind.chunks) << 5;

  nkv_quant_places u_out_places (
    .clk_i, .rst_ni, .chunks_i(scaled.kind.chunks), .step_i(reads), .place_o(out_place)
  );

  logic [CodeSteps-1:0] read_q;
  code_place_t coded;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      read_q <= '0;
      code_slot_q <= '0;
      is_begun_q <= 1'b0;
    end else begin
      read_q <= {read_q[CodeSteps-2:0], reads};
      if (codes_last) code_slot_q <= code_slot_q + 1'b1;
      if (reads || drops) is_begun_q <= !codes_last;
    end
  end
  nkv_delay #(.Width($bits(code_place_t)), .Cycles(CodeSteps)) u_coded (
    .clk_i,
    .data_i({scaled.kind.codec, scaled.kind.chunks, out_place.chunk[0]}),
    .data_o(coded)
  );

  quant_parameters_t used[2*ChunkLanes];
  chunk_t entry_q;
  quant_block_t sending;
  burst_t entry;
  nkv_quant_parameters #(.Slots(Slots)) u_parameters (
    .clk_i,
    .write_i(made_valid), .write_slot_i(made_place.slot), .group_i(made_place.group),
    .parameters_i(parameters),
    .slot_i(code_slot_q), .is_value_i(scaled.kind.is_value), .place_i(out_place),
    .parameters_o(used),
    .entry_slot_i(entry_slot_q), .entry_i(entry_q), .is_fp8_i(sending.codec == CodecFp8),
    .entry_o(entry)
  );

  codec_e used_codec_q[ReadLatency];
  always_ff @(posedge clk_i) used_codec_q <= '{scaled.kind.codec, used_codec_q[0]};

  logic [7:0] code[2*ChunkLanes];
  for (genvar i = 0; i < 2 * ChunkLanes; i++) begin : gen_lanes
    logic [7:0] affine, fp8, fp8_late;
    nkv_quant_code u_code (
      .clk_i, .element_i(row_q[1][16*i+:16]), .parameters_i(used[i]),
      .is_nibble_i(used_codec_q[1] == CodecInt4), .code_o(affine)
    );
    nkv_fp8_code u_fp8 (
      .clk_i, .element_i(row_q[1][16*i+:16]), .scale_i(used[i].scale[7:0]), .code_o(fp8)
    );
    nkv_delay #(.Width(8), .Cycles(CodeLatency - 2)) u_fp8_late (
      .clk_i, .data_i(fp8), .data_o(fp8_late)
    );
    assign code[i] = coded.codec == CodecFp8 ? fp8_late : affine;
  end

  logic packed_valid, codes_valid, codes_ready, packed_ready;
  burst_t packed_burst, codes;
  nkv_code_pack u_pack (
    .clk_i, .rst_ni, .valid_i(read_q[CodeSteps-1]), .is_nibble_i(coded.codec == CodecInt4),
    .chunks_i(coded.chunks), .chunk_i(coded.chunk), .code_i(code),
    .valid_o(packed_valid), .burst_o(packed_burst)
  );
  nkv_fifo #(.T(burst_t), .Depth(Codes)) u_codes (
    .clk_i, .rst_ni, .clear_i(1'b0),
    .in_valid_i(packed_valid), .in_ready_o(packed_ready), .in_data_i(packed_burst),
    .out_valid_o(codes_valid), .out_ready_i(codes_ready), .out_data_o(codes),
    .used_o(codes_waiting)
  );

  // ---- Out: parameters, then codes --------------------------------------------------------------
  logic sending_valid, sending_ready, sends, sends_entry, piece_ready, pieces_idle;
  logic [$clog2(Slots):0] unused_sending;
  logic [8:0] code_q;                        // Bursts of codes sent.
  logic in_codes_q, done_q, error_q;
  nkv_fifo #(.T(quant_block_t), .Depth(Slots)) u_sending (
    .clk_i, .rst_ni, .clear_i(1'b0),
    .in_valid_i((reads || drops) && !is_begun_q), .in_ready_o(sending_ready),
    .in_data_i(scaled.kind),
    .out_valid_o(sending_valid), .out_ready_i(codes_end), .out_data_o(sending),
    .used_o(unused_sending)
  );
  wire unused_ready = ranged_ready ^ scaled_ready ^ sending_ready;

  wire fails = sending_valid && sending.refused && pieces_idle;
  wire [8:0] code_bursts = 9'(code_bytes(sending.codec, sending.chunks) >> $clog2(BurstBytes));
  wire is_last_code = code_q == code_bursts - 1'b1;
  wire chunks_t entries = parameter_entries(sending.is_value, sending.chunks);
  wire is_last_entry = chunks_t'(entry_q) == entries - 1'b1;
  assign sends_entry = sending_valid && !sending.refused && !in_codes_q;
  assign codes_ready = in_codes_q && piece_ready;
  assign sends = (sends_entry || (in_codes_q && codes_valid)) && piece_ready;
  assign codes_end = fails || (sends && in_codes_q && is_last_code);

  nkv_piece_pack u_pieces (
    .clk_i, .rst_ni,
    .in_valid_i(sends_entry || (in_codes_q && codes_valid)), .in_ready_o(piece_ready),
    .in_data_i(in_codes_q ? codes : entry),
    .in_single_i(!in_codes_q && sending.codec == CodecFp8),
    .in_last_i(in_codes_q && is_last_code),
    .idle_o(pieces_idle), .out_valid_o, .out_ready_i, .out_data_o, .out_last_o, .out_bytes_o
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      entry_slot_q <= '0;
      entry_q <= '0;
      code_q <= '0;
      in_codes_q <= 1'b0;
      done_q <= 1'b0;
      error_q <= 1'b0;
    end else begin
      done_q <= fails || (out_valid_o && out_ready_i && out_last_o);
      error_q <= fails;
      if (codes_end) entry_slot_q <= entry_slot_q + 1'b1;
      if (sends && !in_codes_q) begin
        entry_q <= is_last_entry ? '0 : entry_q + 1'b1;
        in_codes_q <= is_last_entry;
      end
      if (sends && in_codes_q) begin
        code_q <= is_last_code ? '0 : code_q + 1'b1;
        in_codes_q <= !is_last_code;
      end
    end
  end

  assign done_o = done_q;
  assign error_o = error_q;

  `NKV_ASSERT_STAYS(OutStays_A, out_valid_o, out_ready_i, {out_data_o, out_last_o, out_bytes_o})
  `NKV_ASSERT_ROOM(CodesHaveRoom_A, packed_valid, packed_ready)

endmodule
