// Sorts candidates that lie in memory, best first: a 4-way merge sort between two halves, whose
// last pass goes out as a stream. The memory belongs to the user: entry i of the half that is
// sorted from is read at read_address_o (its top bit tells the half, 0 first), the data come back
// two cycles later; writes take effect within a cycle.
// count candidates take ceil(log4 count) passes (1 at least) of at most count + 18 cycles, if the
// taker of the last is always ready. 1 to 2^IndexBits candidates; of these the best `give` come out.

module nkv_candidate_sort
  import nkv_select_pkg::*;
#(
  parameter int unsigned IndexBits = 12,
  localparam type count_t = logic [IndexBits:0]
) (
  input  logic               clk_i,
  input  logic               rst_ni,
  input  logic               start_i,
  input  count_t             count_i,   // With start_i; 1 at least.
  input  count_t             give_i,    // With start_i; 1 to count_i.
  output logic               busy_o,

  output logic               read_valid_o,
  output logic [IndexBits:0] read_address_o,
  input  score_t             read_score_i,
  input  token_t             read_token_i,

  output logic               write_valid_o,
  output logic [IndexBits:0] write_address_o,
  output score_t             write_score_o,
  output token_t             write_token_o,

  output logic               out_valid_o,
  input  logic               out_ready_i,
  output logic               out_last_o,
  output score_t             out_score_o,
  output token_t             out_token_o
);

  logic busy_q, clear_q, half_q, final_q;
  logic [2:0] power_q;       // Runs of 4^power_q are merged.
  count_t count_q, give_q;
  count_t left_q;            // Candidates that have not come out in this pass, less one.

  // Runs of so many candidates are sorted after this pass, and after the next.
  localparam int unsigned RunBits = 2 * 8 + 1;
  typedef logic [RunBits-1:0] run_t;
  wire run_t next_run = run_t'(1) << (4'(power_q) + 4'd2) * 2;

  logic item_valid, item_pad, item_last;
  logic [1:0] item_stream;
  logic [3:0] taken;

  nkv_run_fetch #(
    .IndexBits(IndexBits)
  ) u_fetch (
    .clk_i, .rst_ni,
    .clear_i(clear_q),
    .count_i(count_q),
    .power_i(power_q),
    .taken_i(taken),
    .read_valid_o,
    .read_address_o(read_address_o[IndexBits-1:0]),
    .item_valid_o(item_valid), .item_stream_o(item_stream),
    .item_pad_o(item_pad), .item_last_o(item_last)
  );
  assign read_address_o[IndexBits] = half_q;

  logic [1:0] pair_valid, pair_ready, pair_pad, pair_last;
  score_t pair_score[2];
  token_t pair_token[2];

  for (genvar i = 0; i < 2; ++i) begin : gen_pair
    logic a_ready, b_ready;
    nkv_run_merge u_merge (
      .clk_i, .rst_ni, .clear_i(clear_q),
      .a_valid_i(item_valid && item_stream == 2'(2 * i)), .a_ready_o(a_ready),
      .a_pad_i(item_pad), .a_last_i(item_last),
      .a_score_i(read_score_i), .a_token_i(read_token_i), .a_taken_o(taken[2*i]),
      .b_valid_i(item_valid && item_stream == 2'(2 * i + 1)), .b_ready_o(b_ready),
      .b_pad_i(item_pad), .b_last_i(item_last),
      .b_score_i(read_score_i), .b_token_i(read_token_i), .b_taken_o(taken[2*i+1]),
      .out_valid_o(pair_valid[i]), .out_ready_i(pair_ready[i]),
      .out_pad_o(pair_pad[i]), .out_last_o(pair_last[i]),
      .out_score_o(pair_score[i]), .out_token_o(pair_token[i])
    );
    // The fetcher has counted the places of these queues.
    wire unused_ready = a_ready && b_ready;
  end

  logic merged_valid, merged_pad, merged_last;
  logic [1:0] unused_taken;
  score_t merged_score;
  token_t merged_token;

  nkv_run_merge u_merge (
    .clk_i, .rst_ni, .clear_i(clear_q),
    .a_valid_i(pair_valid[0]), .a_ready_o(pair_ready[0]),
    .a_pad_i(pair_pad[0]), .a_last_i(pair_last[0]),
    .a_score_i(pair_score[0]), .a_token_i(pair_token[0]), .a_taken_o(unused_taken[0]),
    .b_valid_i(pair_valid[1]), .b_ready_o(pair_ready[1]),
    .b_pad_i(pair_pad[1]), .b_last_i(pair_last[1]),
    .b_score_i(pair_score[1]), .b_token_i(pair_token[1]), .b_taken_o(unused_taken[1]),
    .out_valid_o(merged_valid), .out_ready_i(!final_q || out_ready_i),
    .out_pad_o(merged_pad), .out_last_o(merged_last),
    .out_score_o(merged_score), .out_token_o(merged_token)
  );
  // Pads come behind the last candidate of a pass, when it is over.
  wire unused_marks = merged_pad && merged_last;

  logic [IndexBits-1:0] write_q;

  assign busy_o = busy_q;
  assign write_valid_o = merged_valid && !final_q && !clear_q;
  assign write_address_o = {!half_q, write_q};
  assign write_score_o = merged_score;
  assign write_token_o = merged_token;
  assign out_valid_o = merged_valid && final_q && !clear_q;
  assign out_last_o = left_q == '0;
  assign out_score_o = merged_score;
  assign out_token_o = merged_token;

  wire moves = merged_valid && !clear_q && (!final_q || out_ready_i);
  wire pass_ends = moves && left_q == '0;
  wire starts_final = count_i <= count_t'(4);
  wire next_final = run_t'(count_q) <= next_run;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      busy_q <= 1'b0;
      clear_q <= 1'b1;
      count_q <= '0;
      give_q <= '0;
      left_q <= '0;
      half_q <= 1'b0;
      final_q <= 1'b1;
      power_q <= '0;
      write_q <= '0;
    end else begin
      // One cycle of rest after each pass; without work, rest.
      clear_q <= !busy_q || pass_ends;
      if (start_i) begin
        busy_q <= 1'b1;
        count_q <= count_i;
        give_q <= give_i;
        left_q <= (starts_final ? give_i : count_i) - 1'b1;
        half_q <= 1'b0;
        final_q <= starts_final;
        power_q <= '0;
        write_q <= '0;
      end else if (pass_ends) begin
        left_q <= (next_final ? give_q : count_q) - 1'b1;
        write_q <= '0;
        if (final_q) begin
          busy_q <= 1'b0;
        end else begin
          half_q <= !half_q;
          final_q <= next_final;
          power_q <= power_q + 1'b1;
        end
      end else if (moves) begin
        left_q <= left_q - 1'b1;
        write_q <= write_q + 1'b1;
      end
    end
  end

endmodule
