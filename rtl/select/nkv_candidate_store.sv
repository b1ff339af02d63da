// Memory of candidates: one is read and one is written per cycle. What is read comes two cycles
// later, with read_valid_o; what is written in the cycle in which it is read comes as it was.

module nkv_candidate_store
  import nkv_select_pkg::*;
#(
  parameter int unsigned Entries = 8192,
  localparam int unsigned IndexBits = $clog2(Entries)
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,

  input  logic                 read_i,
  input  logic [IndexBits-1:0] read_index_i,
  output logic                 read_valid_o,
  output logic                 read_busy_o,   // Something comes in this cycle or the next.
  output score_t               read_score_o,
  output token_t               read_token_o,

  input  logic                 write_i,
  input  logic [IndexBits-1:0] write_index_i,
  input  score_t               write_score_i,
  input  token_t               write_token_i
);

  (* ram_style = "block" *) score_t scores[Entries];
  (* ram_style = "block" *) token_t tokens[Entries];
  score_t fetched_score_q;
  token_t fetched_token_q;
  logic [1:0] valid_q;

  assign read_valid_o = valid_q[1];
  assign read_busy_o = valid_q != '0;

  always_ff @(posedge clk_i) begin
    if (read_i) begin
      fetched_score_q <= scores[read_index_i];
      fetched_token_q <= tokens[read_index_i];
    end
    if (valid_q[0]) begin
      read_score_o <= fetched_score_q;
      read_token_o <= fetched_token_q;
    end
    if (write_i) begin
      scores[write_index_i] <= write_score_i;
      tokens[write_index_i] <= write_token_i;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[0], read_i};
  end

endmodule
