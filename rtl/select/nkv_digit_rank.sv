// One step of a radix selection: counts members by a digit, then finds the digit that the member of
// rank need_i (1 = the one with the largest digit) has.
// - add_valid_i counts a member, up to one per cycle.
// - find_i, at least one cycle after the last member, walks down all digits, empties their counts,
//   and gives done_o for one cycle 2^DigitBits + 4 cycles later, with the digit, what is left of
//   the rank among the members that have it, and their number. need_i holds meanwhile.
// After reset it is busy for 2^DigitBits + 4 cycles, as after find_i.

module nkv_digit_rank #(
  parameter int unsigned DigitBits = 8,
  parameter int unsigned CountBits = 14,
  localparam type digit_t = logic [DigitBits-1:0],
  localparam type count_t = logic [CountBits-1:0]
) (
  input  logic   clk_i,
  input  logic   rst_ni,
  output logic   busy_o,

  input  logic   add_valid_i,
  input  digit_t add_digit_i,

  input  logic   find_i,
  input  count_t need_i,
  output logic   done_o,
  output digit_t digit_o,
  output count_t rank_o,   // 1 .. members_o, if as many members as need_i were counted.
  output count_t members_o
);

  (* ram_style = "block" *) count_t counts[2**DigitBits];
  count_t read_q;

  logic valid_q;           // A member whose digit's count is being read.
  digit_t digit_q;
  logic repeated_q;        // The count was written while it was read:
  count_t written_q;       // with this.

  logic walking_q;         // Reads walk_q and, in the same cycle, empties the one before.
  digit_t walk_q;
  logic read_valid_q;      // read_q is the count of walked_q.
  digit_t walked_q;
  logic value_valid_q;     // value_q is the count of value_digit_q.
  count_t value_q;
  digit_t value_digit_q;
  logic sum_valid_q;       // sum_q members have sum_digit_q or a greater one, at_q have just that.
  count_t sum_q, at_q;
  digit_t sum_digit_q;
  logic found_q, done_q;

  wire count_t increased = (repeated_q ? written_q : read_q) + 1'b1;

  assign busy_o = walking_q || read_valid_q || value_valid_q || sum_valid_q || done_q;
  assign done_o = done_q;

  always_ff @(posedge clk_i) begin
    if (add_valid_i || walking_q) read_q <= counts[walking_q ? walk_q : add_digit_i];
    if (valid_q || read_valid_q) begin
      counts[read_valid_q ? walked_q : digit_q] <= read_valid_q ? '0 : increased;
    end
    if (add_valid_i) begin
      digit_q <= add_digit_i;
      repeated_q <= valid_q && digit_q == add_digit_i;
    end
    if (valid_q) written_q <= increased;
    if (walking_q) walked_q <= walk_q;
    if (read_valid_q) begin
      value_q <= read_q;
      value_digit_q <= walked_q;
    end
    if (find_i) sum_q <= '0;
    if (value_valid_q) begin
      sum_q <= sum_q + value_q;
      at_q <= value_q;
      sum_digit_q <= value_digit_q;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_q <= 1'b0;
      walking_q <= 1'b1;
      walk_q <= '1;
      read_valid_q <= 1'b0;
      value_valid_q <= 1'b0;
      sum_valid_q <= 1'b0;
      found_q <= 1'b1;
      done_q <= 1'b0;
    end else begin
      valid_q <= add_valid_i;
      read_valid_q <= walking_q;
      value_valid_q <= read_valid_q;
      sum_valid_q <= value_valid_q;
      done_q <= sum_valid_q && !value_valid_q;
      if (find_i) begin
        walking_q <= 1'b1;
        walk_q <= '1;
        found_q <= 1'b0;
      end else if (walking_q) begin
        walk_q <= walk_q - 1'b1;
        if (walk_q == '0) walking_q <= 1'b0;
      end
      if (sum_valid_q && sum_q >= need_i) found_q <= 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (sum_valid_q && !found_q && sum_q >= need_i) begin
      digit_o <= sum_digit_q;
      rank_o <= need_i - (sum_q - at_q);
      members_o <= at_q;
    end
  end

endmodule
