// Adds up the planes of a token for all rows: after planes 1..L, the sum of w times the code's
// leading L bits as an integer (Horner's rule: planes come in order). Whole sums wait in a queue
// for their midpoints.
//
// One beat per cycle. A beat that completes its tokens is in the queue 2 cycles later; there is
// room for all beats of 2 pages, which the pages in use are told apart by their slots' low bit.

module nkv_plane_sums
  import nkv_pkg::*;
  import nkv_scan_pkg::*;
(
  input  logic  clk_i,
  input  logic  rst_ni,

  input  logic  valid_i,
  input  beat_t beat_i,
  input  sum_t  sum_i[Rows][PlaneTokens],

  output logic  out_valid_o,
  input  logic  out_ready_i,
  output beat_t out_beat_o,

  // Reads sums of a beat in the queue; they stand in the next cycle.
  input  logic     read_i,
  input  beat_t    read_beat_i,
  output partial_t read_sum_o[Rows][PlaneTokens]
);

  logic valid_1, valid_2;
  beat_t beat_1, beat_2;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_1 <= 1'b0;
      valid_2 <= 1'b0;
    end else begin
      valid_1 <= valid_i;
      valid_2 <= valid_1;
    end
  end
  always_ff @(posedge clk_i) begin
    if (valid_i) beat_1 <= beat_i;
    if (valid_1) beat_2 <= beat_1;
  end

  logic queue_ready;
  logic [QuadBits+1:0] queue_used;
  nkv_fifo #(
    .T(beat_t),
    .Depth(2 * PageQuads)
  ) u_queue (
    .clk_i,
    .rst_ni,
    .clear_i(1'b0),
    .in_valid_i(valid_2 && beat_2.completes),
    .in_ready_o(queue_ready),
    .in_data_i(beat_2),
    .out_valid_o,
    .out_ready_i,
    .out_data_o(out_beat_o),
    .used_o(queue_used)
  );

  wire [QuadBits:0] read_at = {read_beat_i.slot[0], read_beat_i.quad};
  for (genvar t = 0; t < PlaneTokens; t++) begin : gen_tokens
    for (genvar r = 0; r < Rows; r++) begin : gen_rows
      (* ram_style = "distributed" *) partial_t partials[PageQuads];
      (* ram_style = "distributed" *) partial_t wholes[2*PageQuads];
      partial_t partial_1, partial_2;
      sum_t sum_1;
      always_ff @(posedge clk_i) begin
        if (valid_i) begin
          sum_1 <= sum_i[r][t];
          partial_1 <= beat_i.begins ? '0 : partials[beat_i.quad];
        end
        if (valid_1) partial_2 <= (partial_1 <<< 1) + partial_t'(sum_1);
        if (valid_2 && !beat_2.completes) partials[beat_2.quad] <= partial_2;
      end
      always_ff @(posedge clk_i) begin
        if (valid_2 && beat_2.completes) wholes[{beat_2.slot[0], beat_2.quad}] <= partial_2;
      end
      always_ff @(posedge clk_i) begin
        if (read_i) read_sum_o[r][t] <= wholes[read_at];
      end
    end
  end

  // verilator lint_off UNUSEDSIGNAL
  wire unused = &{1'b0, queue_ready, queue_used, read_beat_i};
  // verilator lint_on UNUSEDSIGNAL

endmodule
