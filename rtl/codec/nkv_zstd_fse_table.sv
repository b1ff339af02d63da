// Builds an FSE table from the counts of its symbols (RFC 8878, 4.1.1), and tells what its states
// mean: the entry of state_i at read_i, a cycle later, until the next read.
//
// begin_i with the log of the number of states; then the counts that are not zero, by symbol
// ascending, their sum (-1 counting 1) that number; end_i behind the last. Or begin_i with
// is_rle_i: one state, of that symbol. ready_o from then on until the next begin_i. A cycle per
// state to spread the symbols, one to number them.

module nkv_zstd_fse_table
  import nkv_zstd_pkg::*;
#(
  parameter int unsigned MaxLog = 9   // At least 5.
) (
  input  logic              clk_i,
  input  logic              rst_ni,

  input  logic              begin_i,
  input  logic [3:0]        log_i,    // 0 with is_rle_i.
  input  logic              is_rle_i,
  input  logic              count_valid_i,
  input  logic [5:0]        symbol_i,
  input  fse_count_t        count_i,
  input  logic              end_i,

  output logic              ready_o,
  output logic [3:0]        log_o,
  input  logic              read_i,
  input  logic [MaxLog-1:0] state_i,
  output fse_entry_t        entry_o
);

  typedef logic [MaxLog-1:0] state_t;
  typedef enum logic [2:0] {Idle, Load, Spread, Number, Settle, Ready} phase_e;

  phase_e phase_q;
  logic [3:0] log_q;
  state_t mask_q, step_q;
  state_t high_q;             // States above have symbols of count -1.
  state_t place_q;
  assign log_o = log_q;
  assign ready_o = phase_q == Ready;

  // ---- Symbols with a share, in order ---------------------------------------------------------
  typedef struct packed {
    logic [5:0] symbol;
    logic [MaxLog:0] count;
  } share_t;
  (* ram_style = "distributed" *) share_t shares[64];
  logic [5:0] shares_q, share_q;   // How many, and the next.
  share_t spread_q;                // The symbol that is spread, and what is left of it.

  wire is_lone = count_i[10];
  wire unused_count = ^count_i;    // A smaller table's counts have fewer bits.
  wire share_t share = shares[share_q];
  always_ff @(posedge clk_i) begin
    if (count_valid_i && !is_lone) shares[shares_q] <= '{symbol_i, count_i[MaxLog:0]};
  end

  // ---- The symbol of each state ---------------------------------------------------------------
  (* ram_style = "distributed" *) logic [5:0] symbols[2**MaxLog];
  logic [5:0] symbol_q;            // Of the state place_q of the cycle before.
  wire takes_place = phase_q == Spread && place_q <= high_q && spread_q.count != '0;
  wire writes_symbol = takes_place || (count_valid_i && is_lone);
  wire state_t symbol_place = phase_q == Spread ? place_q : high_q;
  always_ff @(posedge clk_i) begin
    if (writes_symbol) symbols[symbol_place] <= phase_q == Spread ? spread_q.symbol : symbol_i;
    symbol_q <= symbols[place_q];
  end

  // ---- Numbers of the states of a symbol ------------------------------------------------------
  (* ram_style = "distributed" *) logic [MaxLog:0] next_number[64];
  logic numbers_q, numbered_q;
  state_t state_q, numbered_state_q;
  logic [5:0] numbered_symbol_q;
  logic [MaxLog:0] number_q;
  wire [MaxLog:0] number = next_number[symbol_q];
  wire [MaxLog:0] first_number = is_lone ? (MaxLog + 1)'(1) : count_i[MaxLog:0];
  always_ff @(posedge clk_i) begin
    if (count_valid_i || numbers_q) begin
      next_number[numbers_q ? symbol_q : symbol_i] <= numbers_q ? number + 1'b1 : first_number;
    end
    number_q <= number;
    numbered_symbol_q <= symbol_q;
    state_q <= place_q;
    numbered_state_q <= state_q;
  end

  logic [3:0] number_bits;         // Without the highest.
  always_comb begin
    number_bits = '0;
    for (int unsigned i = 0; i <= MaxLog; ++i) if (number_q[i]) number_bits = 4'(i);
  end
  wire [3:0] entry_bits = log_q - number_bits;
  wire state_t entry_base = state_t'((number_q << entry_bits) - ((MaxLog + 1)'(1) << log_q));

  (* ram_style = "block" *) fse_entry_t entries[2**MaxLog];
  wire writes_rle = begin_i && is_rle_i;
  wire fse_entry_t new_entry =
      writes_rle ? '{symbol: symbol_i, default: '0}
                 : '{numbered_symbol_q, entry_bits, fse_state_t'(entry_base)};
  always_ff @(posedge clk_i) begin
    if (writes_rle || numbered_q) entries[writes_rle ? '0 : numbered_state_q] <= new_entry;
    if (read_i) entry_o <= entries[state_i];
  end

  wire spreads_next = spread_q.count == '0 || (takes_place && spread_q.count == (MaxLog + 1)'(1));
  wire is_spread = share_q == shares_q && spreads_next;

  always_ff @(posedge clk_i) begin
    if (phase_q == Spread) begin
      if (spreads_next) spread_q <= share;
      else if (takes_place) spread_q.count <= spread_q.count - 1'b1;
    end else begin
      spread_q <= '0;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      phase_q <= Idle;
      log_q <= '0;
      mask_q <= '0;
      step_q <= '0;
      high_q <= '0;
      place_q <= '0;
      shares_q <= '0;
      share_q <= '0;
      numbers_q <= 1'b0;
      numbered_q <= 1'b0;
    end else begin
      numbers_q <= phase_q == Number;
      numbered_q <= numbers_q;
      unique case (phase_q)
        Load: begin
          if (count_valid_i) begin
            if (is_lone) high_q <= high_q - 1'b1;
            else shares_q <= shares_q + 1'b1;
          end
          place_q <= '0;
          if (end_i) phase_q <= Spread;
        end
        Spread: begin
          if (spreads_next) share_q <= share_q + 1'b1;
          if (spread_q.count != '0) place_q <= (place_q + step_q) & mask_q;
          if (is_spread) begin
            phase_q <= Number;
            place_q <= '0;
          end
        end
        Number: begin
          place_q <= place_q + 1'b1;
          if (place_q == mask_q) phase_q <= Settle;
        end
        Settle: if (!numbers_q) phase_q <= Ready;
        default: ;
      endcase
      if (begin_i) begin
        phase_q <= is_rle_i ? Ready : Load;
        log_q <= log_i;
        mask_q <= state_t'((1 << log_i) - 1);
        step_q <= state_t'((1 << (log_i - 4'd1)) + (1 << (log_i - 4'd3)) + 3);
        high_q <= state_t'((1 << log_i) - 1);
        shares_q <= '0;
        share_q <= '0;
        numbers_q <= 1'b0;
        numbered_q <= 1'b0;
      end
    end
  end

endmodule
