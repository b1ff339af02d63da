// Decodes blocks of INT8, INT4 or FP8 to bf16 rows: FORMATS.md, to the bit as the host library does.
//
// A start states a block and how many bytes come for it, in whole bursts, of which the last may be
// filled up with anything. The rows leave token-major, in whole bursts; the last is marked. done_o
// stands for one cycle when it has been taken. A shape that this build does not take or another size
// than the block's: error_o stands with done_o, and nothing came out. Parameters that the codec
// refuses, or a NaN code: error_o stands with done_o behind rows that mean nothing. Whatever comes
// in, all of the stated bytes' bursts are taken. A block may be started while others are under way;
// their ends come in the order of their starts.
//
// Speed: a burst of rows per cycle. Bursts are taken at up to one per cycle, ahead of their use, so
// that the next block's parameters come beside the codes of this one.

`include "nkv_assert.svh"

module nkv_quant_decode
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

  output logic        done_o,
  output logic        error_o
);

  localparam int unsigned Slots = 4;            // Blocks whose parameters are kept.
  localparam int unsigned SlotBits = $clog2(Slots);
  localparam int unsigned Ahead = 32;           // Bursts of codes that wait,
  localparam int unsigned Waiting = 32;         // and bursts of rows,
  localparam int unsigned Steps = 3 + ValueLatency;  // that come so long after their codes.
  typedef logic [SlotBits-1:0] slot_t;
  typedef logic [11:0] count_t;

  typedef struct packed {
    logic         failed;                       // Its parameters are refused.
    quant_block_t kind;
  } work_t;

  // ---- Bursts come: parameters and codes --------------------------------------------------------
  typedef enum logic [2:0] {Idle, Head, Judge, Take, Drain} state_e;
  state_e state_q;
  quant_block_t block_q, started;
  count_t left_q;
  logic [2:0] entry_q;                          // Bursts of parameters that came.
  logic bad_q;
  slot_t in_slot_q;
  logic [SlotBits:0] slots_used_q;
  logic codes_in_ready, work_in_valid, work_in_ready, ends;

  always_comb begin
    started.is_value = tensor_i == TensorValues;
    started.codec = codec_i;
    started.chunks = chunks_t'(dim_i >> $clog2(ChunkLanes));
    started.refused = !is_shape(codec_i, tensor_i, dim_i) ||
        in_bytes_i != encoded_bytes(codec_i, started.is_value, started.chunks);
  end
  assign start_ready_o = state_q == Idle && slots_used_q != (SlotBits + 1)'(Slots);
  wire starts = start_valid_i && start_ready_o;

  // FP8: a burst holds the parameters of four entries, and a last one that is not full codes.
  wire chunks_t entries = parameter_entries(block_q.is_value, block_q.chunks);
  wire is_fp8 = block_q.codec == CodecFp8;
  wire chunks_t heads = is_fp8 ? chunks_t'((5'(entries) + 5'd3) >> 2) : entries;
  wire is_last_head = chunks_t'(entry_q) == heads - 1'b1;
  wire is_shared = is_fp8 && is_last_head && entries[1:0] != '0;

  always_comb begin
    unique case (state_q)
      Head: in_ready_o = !is_shared || codes_in_ready;
      Take: in_ready_o = codes_in_ready;
      Drain: in_ready_o = left_q != '0;
      default: in_ready_o = 1'b0;
    endcase
  end
  wire takes = in_valid_i && in_ready_o;
  wire takes_head = takes && state_q == Head;

  logic [ChunkLanes-1:0] bad;
  always_comb begin
    for (int unsigned i = 0; i < ChunkLanes; i++) begin
      automatic logic [7:0] exponent = in_data_i[32*i+7+:8];
      automatic logic [15:0] scale = in_data_i[32*i+16+:16];
      bad[i] = exponent >= 8'd253 || scale > 16'h7E80;
    end
  end

  assign work_in_valid = state_q == Judge || (state_q == Drain && left_q == '0);
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Idle;
      block_q <= '0;
      left_q <= '0;
      entry_q <= '0;
      bad_q <= 1'b0;
      in_slot_q <= '0;
      slots_used_q <= '0;
    end else begin
      slots_used_q <= slots_used_q + (SlotBits + 1)'(starts) - (SlotBits + 1)'(ends);
      if (takes) left_q <= left_q - 1'b1;
      if (takes_head) begin
        entry_q <= is_last_head ? '0 : entry_q + 1'b1;
        bad_q <= bad_q || (!is_fp8 && bad != '0);
      end
      unique case (state_q)
        Idle: begin
          if (starts) begin
            block_q <= started;
            left_q <= count_t'((18'(in_bytes_i) + 18'(BurstBytes - 1)) >> $clog2(BurstBytes));
            bad_q <= 1'b0;
            state_q <= started.refused ? Drain : Head;
          end
        end
        Head: if (takes && is_last_head) state_q <= Judge;
        Judge: state_q <= Take;
        Take: if (takes && left_q == 12'd1) state_q <= Idle;
        default: if (left_q == '0) state_q <= Idle;
      endcase
      if (work_in_valid) in_slot_q <= in_slot_q + 1'b1;
    end
  end

  (* ram_style = "distributed" *) burst_t heads_kept[Slots*Chunks];
  always_ff @(posedge clk_i) if (takes_head) heads_kept[{in_slot_q, entry_q}] <= in_data_i;

  logic codes_valid, codes_ready, work_valid, work_pops;
  burst_t codes;
  work_t work;
  logic [$clog2(Ahead):0] unused_codes;
  logic [$clog2(Slots):0] unused_work;
  nkv_fifo #(.T(burst_t), .Depth(Ahead)) u_codes (
    .clk_i, .rst_ni, .clear_i(1'b0),
    .in_valid_i(takes && (state_q == Take || (state_q == Head && is_shared))),
    .in_ready_o(codes_in_ready), .in_data_i,
    .out_valid_o(codes_valid), .out_ready_i(codes_ready), .out_data_o(codes), .used_o(unused_codes)
  );
  nkv_fifo #(.T(work_t), .Depth(Slots)) u_work (
    .clk_i, .rst_ni, .clear_i(1'b0),
    .in_valid_i(work_in_valid), .in_ready_o(work_in_ready),
    .in_data_i('{failed: bad_q, kind: block_q}),
    .out_valid_o(work_valid), .out_ready_i(work_pops), .out_data_o(work), .used_o(unused_work)
  );

  // ---- Codes, two chunks at a time --------------------------------------------------------------
  typedef struct packed {
    logic        none;                          // The block has no rows.
    logic        failed;
    logic        is_fp8;
    chunk_pair_t place;
  } step_t;

  slot_t out_slot_q;
  logic is_begun_q, window_valid;
  chunk_pair_t place;
  logic [$clog2(Waiting):0] room_q;             // For bursts of rows.
  logic [7:0] window_code[2*ChunkLanes];
  wire has_room = room_q != '0;
  wire steps = work_valid && !work.kind.refused && window_valid && has_room;
  wire skips = work_valid && work.kind.refused && has_room;
  assign work_pops = skips || (steps && place.last);

  nkv_quant_places u_places (
    .clk_i, .rst_ni, .chunks_i(work.kind.chunks), .step_i(steps), .place_o(place)
  );
  nkv_code_window u_window (
    .clk_i, .rst_ni,
    .in_valid_i(codes_valid), .in_ready_o(codes_ready), .in_data_i(codes),
    .begin_i(!is_begun_q),
    .piece_i(work.kind.codec == CodecFp8 && !work.kind.is_value ? work.kind.chunks[1:0] : '0),
    .is_nibble_i(work.kind.codec == CodecInt4), .chunks_i(work.kind.chunks),
    .chunk_i(place.chunk[0]), .last_i(place.last), .valid_o(window_valid), .step_i(steps),
    .code_o(window_code)
  );

  logic [Steps-1:0] step_valid_q;
  step_t step, late_step;
  always_comb begin
    step = '{none: skips, failed: skips || work.failed, is_fp8: work.kind.codec == CodecFp8,
             place: place};
    if (skips) step.place.last = 1'b1;
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      out_slot_q <= '0;
      is_begun_q <= 1'b0;
      step_valid_q <= '0;
    end else begin
      step_valid_q <= {step_valid_q[Steps-2:0], steps || skips};
      if (work_pops) out_slot_q <= out_slot_q + 1'b1;
      if (steps) is_begun_q <= !place.last;
    end
  end
  nkv_delay #(.Width($bits(step_t)), .Cycles(Steps)) u_step (
    .clk_i, .data_i(step), .data_o(late_step)
  );

  // ---- Their parameters -------------------------------------------------------------------------
  burst_t head_q[2];
  logic [7:0] code_q[2][2*ChunkLanes];
  chunk_t entry[2];
  logic [1:0] is_value_q, is_fp8_q;
  logic [3:0] lane_q[2][2];                     // Of V: the token's.
  logic [1:0] quarter_q[2];                     // Of FP8: the entry's.
  logic [31:0] own_q[2][ChunkLanes];            // FP8: the byte in the upper half.
  always_comb begin
    for (int unsigned h = 0; h < 2; h++) begin
      entry[h] = work.kind.is_value ? chunk_t'(place.token[h] >> 4) : place.chunk[h];
    end
  end
  logic [31:0] parameter_q[2*ChunkLanes];
  logic [7:0] used_code_q[2*ChunkLanes];

  always_ff @(posedge clk_i) begin
    code_q[0] <= window_code;
    code_q[1] <= code_q[0];
    used_code_q <= code_q[1];
    is_value_q <= {is_value_q[0], work.kind.is_value};
    is_fp8_q <= {is_fp8_q[0], work.kind.codec == CodecFp8};
    for (int unsigned h = 0; h < 2; h++) begin
      head_q[h] <= heads_kept[{out_slot_q,
                               work.kind.codec == CodecFp8 ? entry[h] >> 2 : entry[h]}];
      quarter_q[h] <= entry[h][1:0];
      lane_q[0][h] <= place.token[h][3:0];
      lane_q[1][h] <= lane_q[0][h];
      for (int unsigned i = 0; i < ChunkLanes; i++) begin
        own_q[h][i] <= is_fp8_q[0] ? {8'd0, head_q[h][128*quarter_q[h]+8*i+:8], 16'd0}
                                   : head_q[h][32*i+:32];
        parameter_q[ChunkLanes*h+i] <= own_q[h][is_value_q[1] ? lane_q[1][h] : 4'(i)];
      end
    end
  end
  wire unused_fp8 = is_fp8_q[1];

  // ---- Elements ---------------------------------------------------------------------------------
  burst_t row;
  logic [2*ChunkLanes-1:0] is_nan;
  logic nan_q;                                  // Of the bursts before in the block.
  for (genvar i = 0; i < 2 * ChunkLanes; i++) begin : gen_lanes
    logic [15:0] affine, fp8;
    logic [16:0] fp8_late;
    logic nan;
    nkv_quant_value u_value (
      .clk_i, .code_i(used_code_q[i]), .zero_i(parameter_q[i][15:0]),
      .scale_i(parameter_q[i][31:16]), .element_o(affine)
    );
    nkv_fp8_value u_fp8 (
      .clk_i, .code_i(used_code_q[i]), .scale_i(parameter_q[i][23:16]), .element_o(fp8),
      .is_nan_o(nan)
    );
    nkv_delay #(.Width(17), .Cycles(ValueLatency - 2)) u_fp8_late (
      .clk_i, .data_i({nan, fp8}), .data_o(fp8_late)
    );
    assign row[16*i+:16] = late_step.is_fp8 ? fp8_late[15:0] : affine;
    assign is_nan[i] = late_step.is_fp8 && fp8_late[16];
  end

  wire row_valid = step_valid_q[Steps-1];
  wire any_nan = !late_step.none && (nan_q || is_nan != '0);
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) nan_q <= 1'b0;
    else if (row_valid) nan_q <= any_nan && !late_step.place.last;
  end

  // ---- Out --------------------------------------------------------------------------------------
  typedef struct packed {
    logic   none;
    logic   failed;
    logic   last;
    burst_t row;
  } out_t;
  out_t out;
  logic has_out, out_pops, out_in_ready, done_q, error_q;
  logic [$clog2(Waiting):0] unused_out;
  nkv_fifo #(.T(out_t), .Depth(Waiting)) u_out (
    .clk_i, .rst_ni, .clear_i(1'b0),
    .in_valid_i(row_valid), .in_ready_o(out_in_ready),
    .in_data_i('{none: late_step.none, failed: late_step.failed || any_nan,
                 last: late_step.place.last, row: row}),
    .out_valid_o(has_out), .out_ready_i(out_pops), .out_data_o(out), .used_o(unused_out)
  );
  wire unused_places = ^{out_in_ready, late_step.place.token, late_step.place.chunk};
  assign out_valid_o = has_out && !out.none;
  assign out_data_o = out.row;
  assign out_last_o = out.last;
  assign out_pops = has_out && (out.none || out_ready_i);
  assign ends = out_pops && out.last;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      room_q <= ($clog2(Waiting) + 1)'(Waiting);
      done_q <= 1'b0;
      error_q <= 1'b0;
    end else begin
      room_q <= room_q + ($clog2(Waiting) + 1)'(out_pops) -
          ($clog2(Waiting) + 1)'(steps || skips);
      done_q <= ends;
      error_q <= ends && out.failed;
    end
  end
  assign done_o = done_q;
  assign error_o = error_q;

  `NKV_ASSERT_STAYS(OutStays_A, out_valid_o, out_ready_i, {out_data_o, out_last_o})
  `NKV_ASSERT_ROOM(WorkHasRoom_A, work_in_valid, work_in_ready)

endmodule
