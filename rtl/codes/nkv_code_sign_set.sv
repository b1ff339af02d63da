// The sign set of a page: ARITHMETIC.md 11.1. A bit of the quotient per cycle.

module nkv_code_sign_set
  import nkv_codes_pkg::*;
#(
  localparam int unsigned PlaceBits = 26      // Pages that a sequence's tokens may be in.
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,

  input  logic                 start_i,
  input  logic [PlaceBits-1:0] place_i,       // The page's in its sequence.
  input  logic [7:0]           run_i,         // Pages that share a set, at least 1; held until done.
  output logic                 done_o,        // From PlaceBits + 1 cycles later to the next start.
  output sign_set_t            sign_set_o
);

  logic [$clog2(PlaceBits+1)-1:0] left_q;
  logic [PlaceBits-1:0] place_q;              // What is left of it, above the quotient so far.
  logic [7:0]           rest_q;
  wire [8:0] now = {rest_q, place_q[PlaceBits-1]};
  wire fits = now >= {1'b0, run_i};

  assign done_o = left_q == '0;
  assign sign_set_o = place_q[$bits(sign_set_t)-1:0];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {left_q, place_q, rest_q} <= '0;
    end else if (start_i) begin
      left_q <= ($clog2(PlaceBits + 1))'(PlaceBits);
      place_q <= place_i;
      rest_q <= '0;
    end else if (left_q != '0) begin
      left_q <= left_q - 1'b1;
      place_q <= {place_q[PlaceBits-2:0], fits};
      rest_q <= fits ? 8'(now - {1'b0, run_i}) : now[7:0];
    end
  end

endmodule
