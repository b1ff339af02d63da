// The weights of TOPK INDEXER's rows as integers with one exponent (ARITHMETIC.md section 6). Two rounds
// over the rows, one a cycle: the largest exponent, then what each weight is by it.

module nkv_indexer_weights
  import nkv_pkg::*;
  import nkv_exact_pkg::*;
  import nkv_indexer_pkg::*;
(
  input  logic            clk_i,
  input  logic            rst_ni,
  input  logic            clear_i,

  input  logic            start_i,                 // What follows is held from here on.
  input  group_t          rows_i,                  // In use; other rows weigh nothing.
  input  logic [31:0]     weight_i[Rows],          // Binary32, finite.
  input  exponent_t       query_exponent_i[Rows],  // Eq

  output logic            ready_o,                 // The rest holds.
  output indexer_weight_t weight_o[Rows],          // ŵ
  output shared_t         exponent_o               // X
);

  localparam int unsigned MagnitudeBits = WeightBits - 1;
  typedef logic [MagnitudeBits-1:0] magnitude_t;

  logic       busy_q, shifts_q;  // In the second round.
  row_index_t row_q;
  wire [31:0] weight = weight_i[row_q];
  wire exponent_t exponent = weight[30:23];
  wire shared_t sum = shared_t'(exponent) + shared_t'(query_exponent_i[row_q]);
  wire used = group_t'(row_q) < rows_i;

  // Of the second round, a row behind.
  logic       place_q, negative_q;
  row_index_t place_row_q;
  magnitude_t magnitude_q;
  shared_t    distance_q;
  wire magnitude_t placed = distance_q > shared_t'(MagnitudeBits) ? '0
      : magnitude_q >> distance_q[4:0];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      busy_q <= 1'b0;
      shifts_q <= 1'b0;
      row_q <= '0;
      place_q <= 1'b0;
      ready_o <= 1'b0;
    end else if (clear_i) begin
      busy_q <= 1'b0;
      shifts_q <= 1'b0;
      row_q <= '0;
      place_q <= 1'b0;
      ready_o <= 1'b0;
    end else begin
      place_q <= busy_q && shifts_q;
      ready_o <= ready_o || (place_q && place_row_q == '1);
      if (start_i) busy_q <= 1'b1;
      if (busy_q) begin
        row_q <= row_q + 1'b1;
        if (row_q == '1) begin
          shifts_q <= 1'b1;
          busy_q <= !shifts_q;
        end
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (start_i) exponent_o <= '0;
    else if (busy_q && !shifts_q && used && sum > exponent_o) exponent_o <= sum;
    place_row_q <= row_q;
    negative_q <= weight[31];
    magnitude_q <= used && exponent != '0 ? {1'b1, weight[22:0], 3'b0} : '0;
    distance_q <= exponent_o - sum;
    if (place_q) begin
      weight_o[place_row_q] <= negative_q ? -indexer_weight_t'({1'b0, placed})
                                          : indexer_weight_t'({1'b0, placed});
    end
  end

endmodule
