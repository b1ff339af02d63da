// Queue of 8 before a merger, with its head in registers, so that two heads are compared without a
// memory before them. Items appear at the output 2 cycles after they were taken; one per cycle.

module nkv_run_queue
  import nkv_select_pkg::*;
(
  input  logic   clk_i,
  input  logic   rst_ni,
  input  logic   clear_i,

  input  logic   in_valid_i,
  output logic   in_ready_o,
  input  logic   in_pad_i,
  input  logic   in_last_i,
  input  score_t in_score_i,
  input  token_t in_token_i,
  output logic   taken_o,      // An item left the queue for the head.

  output logic   out_valid_o,
  input  logic   out_pop_i,    // Only while out_valid_o.
  output logic   out_pad_o,
  output logic   out_last_o,
  output score_t out_score_o,
  output token_t out_token_o
);

  localparam int unsigned IndexBits = 3;

  (* ram_style = "distributed" *) score_t scores[2**IndexBits];
  (* ram_style = "distributed" *) token_t tokens[2**IndexBits];
  (* ram_style = "distributed" *) logic [1:0] marks[2**IndexBits];
  logic [IndexBits:0] write_q, read_q;
  logic head_valid_q;

  wire [IndexBits:0] used = write_q - read_q;
  wire push = in_valid_i && in_ready_o;
  wire loads = write_q != read_q && (out_pop_i || !head_valid_q);

  assign in_ready_o = !used[IndexBits];
  assign taken_o = loads;
  assign out_valid_o = head_valid_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      write_q <= '0;
      read_q <= '0;
      head_valid_q <= 1'b0;
    end else if (clear_i) begin
      write_q <= '0;
      read_q <= '0;
      head_valid_q <= 1'b0;
    end else begin
      if (push) write_q <= write_q + 1'b1;
      if (loads) read_q <= read_q + 1'b1;
      if (loads || out_pop_i) head_valid_q <= loads;
    end
  end

  always_ff @(posedge clk_i) begin
    if (push) begin
      scores[write_q[IndexBits-1:0]] <= in_score_i;
      tokens[write_q[IndexBits-1:0]] <= in_token_i;
      marks[write_q[IndexBits-1:0]] <= {in_pad_i, in_last_i};
    end
    if (loads) begin
      out_score_o <= scores[read_q[IndexBits-1:0]];
      out_token_o <= tokens[read_q[IndexBits-1:0]];
      {out_pad_o, out_last_o} <= marks[read_q[IndexBits-1:0]];
    end
  end

endmodule
