// Reads the description of an FSE table (RFC 8878, 4.1.1) from a window of bytes: the log of its
// states, and the counts of the symbols that have some, in order. A count in two cycles, two bits
// of a run of absent symbols in two.
//
// done_o stands for one cycle, when all bytes of the description have been taken. error_o does
// instead where it is none: too large a log, a symbol above the last, or more states than there
// are. Between begin_i and either it looks at four bytes and takes up to two.

module nkv_zstd_fse_counts
  import nkv_zstd_pkg::*;
(
  input  logic       clk_i,
  input  logic       rst_ni,
  input  logic       begin_i,
  input  logic [3:0] max_log_i,       // With the following, held.
  input  logic [5:0] last_symbol_i,
  input  logic       cancel_i,

  input  logic       valid_i,         // bytes_i are there.
  input  logic [7:0] bytes_i[3],
  output logic [1:0] take_o,

  output logic       log_valid_o,     // Once, before all counts.
  output logic [3:0] log_o,
  output logic       count_valid_o,
  output logic [5:0] symbol_o,
  output fse_count_t count_o,
  output logic       done_o,
  output logic       error_o
);

  typedef enum logic [2:0] {Idle, Log, Look, Count, Look0, Absent, End} state_e;
  state_e state_q;
  logic [2:0] bit_q;          // Of the first byte: the next one.
  logic [9:0] field_q;        // The next bits.
  logic [10:0] remaining_q;   // States that are left, and one.
  logic [3:0] bits_q;         // Of a count, at the most,
  logic [5:0] symbol_q;
  logic is_beyond_q;          // symbol_q passed the last.

  // The count's range is not a power of two: its lowest values take a bit less.
  wire [10:0] threshold = 11'd1 << (bits_q - 4'd1);
  wire [10:0] short_values = (threshold << 1) - 11'd1 - remaining_q;
  wire [10:0] low = {1'b0, field_q} & (threshold - 11'd1);
  wire [10:0] whole = {1'b0, field_q} & ((threshold << 1) - 11'd1);
  wire is_short = low < short_values;
  wire [10:0] value = is_short ? low : whole >= threshold ? whole - short_values : whole;
  wire [3:0] used = is_short ? bits_q - 4'd1 : bits_q;
  assign count_o = $signed(value) - 11'sd1;
  wire [10:0] next_remaining = remaining_q - (count_o[10] ? 11'd1 : 11'(count_o));

  // Bits of the largest value up to remaining.
  function automatic logic [3:0] bits_of(logic [10:0] remaining);
    bits_of = 4'd1;
    for (int unsigned i = 0; i < 11; ++i) if (remaining[i]) bits_of = 4'(i + 1);
  endfunction

  logic [3:0] moved;          // Bits that the present state uses.
  always_comb begin
    unique case (state_q)
      Log: moved = valid_i ? 4'd4 : 4'd0;
      Count: moved = used;
      Absent: moved = 4'd2;
      // Bits up to the next byte stay unused.
      End: moved = bit_q == '0 ? 4'd0 : 4'd8 - {1'b0, bit_q};
      default: moved = '0;
    endcase
  end
  wire [4:0] place = {2'b0, bit_q} + {1'b0, moved};
  assign take_o = place[4:3];

  wire [3:0] log = bytes_i[0][3:0] + 4'd5;
  wire is_log_wrong = bytes_i[0][3:0] > max_log_i - 4'd5;
  wire [9:0] window = 10'({bytes_i[2], bytes_i[1], bytes_i[0]} >> bit_q);

  assign log_valid_o = state_q == Log && valid_i;
  assign log_o = log;
  assign symbol_o = symbol_q;
  assign count_valid_o = state_q == Count && !is_beyond_q && value != 11'd1;
  assign done_o = state_q == End;
  assign error_o = (log_valid_o && is_log_wrong) ||
                   ((state_q == Count || state_q == Absent) && is_beyond_q);

  always_ff @(posedge clk_i) begin
    if (state_q == Look || state_q == Look0) field_q <= window;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Idle;
      bit_q <= '0;
      remaining_q <= '0;
      bits_q <= '0;
      symbol_q <= '0;
      is_beyond_q <= 1'b0;
    end else if (cancel_i) begin
      state_q <= Idle;
    end else begin
      bit_q <= place[2:0];
      unique case (state_q)
        Idle: begin
          if (begin_i) state_q <= Log;
          bit_q <= '0;
          symbol_q <= '0;
          is_beyond_q <= 1'b0;
        end
        Log: begin
          if (valid_i) state_q <= Look;
          remaining_q <= (11'd1 << log) + 11'd1;
          bits_q <= log + 4'd1;
        end
        Look: if (valid_i) state_q <= Count;
        Count: begin
          remaining_q <= next_remaining;
          bits_q <= bits_of(next_remaining);
          is_beyond_q <= is_beyond_q || symbol_q == last_symbol_i;
          symbol_q <= symbol_q + 6'd1;
          if (next_remaining == 11'd1) state_q <= End;
          else state_q <= value == 11'd1 ? Look0 : Look;
        end
        Look0: if (valid_i) state_q <= Absent;
        Absent: begin
          is_beyond_q <= is_beyond_q || {1'b0, symbol_q} + 7'(field_q[1:0]) > 7'(last_symbol_i);
          symbol_q <= symbol_q + 6'(field_q[1:0]);
          state_q <= field_q[1:0] == 2'd3 ? Look0 : Look;
        end
        default: state_q <= Idle;
      endcase
      if (error_o) state_q <= Idle;
    end
  end

endmodule
