// nkv_select, query after query: some candidates or so many that the store is cut, then the best of them.
module harness (
  input  logic          clk_i,
  input  logic          rst_ni,
  input  logic [127:0]  random_i,
  output logic [63:0]   control_o,
  output logic          data_valid_o,
  output logic [1023:0] data_o
);
  logic [9:0] left_q;                   // Candidates.
  logic [19:0] token_q;
  logic collects_q, finishes_q, drains_q;
  logic command_ready, in_ready, answer_valid, out_valid, out_last, in_valid, out_ready;
  logic [8:0] count, given_q;
  nkv_select_pkg::score_t score;
  nkv_select_pkg::token_t token;
  assign in_valid = collects_q && left_q != '0 && random_i[0];
  assign out_ready = random_i[1];

  nkv_select #(
    .Entries(256)
  ) u_dut (
    .clk_i,
    .rst_ni,
    .command_valid_i(finishes_q || (!collects_q && !drains_q)),
    .command_ready_o(command_ready),
    .command_i      (finishes_q ? nkv_select_pkg::SelectFinish : nkv_select_pkg::SelectStart),
    .k_i            (8'(random_i[38:32]) + 8'd1),
    .reference_i    ('0),
    .shift_i        (6'd12),
    .held_i         (random_i[13:4] == '0),
    .in_valid_i     (in_valid),
    .in_ready_o     (in_ready),
    .in_score_i     (random_i[123:64]),
    .in_token_i     (token_q),
    .answer_valid_o (answer_valid),
    .answer_count_o (count),
    .out_valid_o    (out_valid),
    .out_ready_i    (out_ready),
    .out_last_o     (out_last),
    .out_score_o    (score),
    .out_token_o    (token)
  );
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {left_q, token_q, collects_q, finishes_q, drains_q, given_q} <= '0;
    end else begin
      if (!collects_q && !finishes_q && !drains_q && command_ready) begin
        collects_q <= 1'b1;
        left_q <= random_i[42] ? random_i[61:52] : 10'(random_i[56:52]) + 10'd1;
      end
      if (in_valid && in_ready) begin
        left_q <= left_q - 1'b1;
        token_q <= token_q + 1'b1;
      end
      if (collects_q && left_q == '0) {collects_q, finishes_q} <= 2'b01;
      if (finishes_q && command_ready) {finishes_q, drains_q} <= 2'b01;
      if (answer_valid) given_q <= count;
      if (answer_valid && count == '0) drains_q <= 1'b0;
      if (out_valid && out_ready && out_last) drains_q <= 1'b0;
    end
  end
  assign control_o = 64'({command_ready, in_ready, answer_valid, out_valid, given_q});
  assign data_valid_o = out_valid;
  assign data_o = 1024'({out_last, score, token});
endmodule
