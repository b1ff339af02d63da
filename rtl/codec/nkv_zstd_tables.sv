// Reads the head of a block's sequences section (RFC 8878, 3.1.1.3.2.1): their number, and the
// three FSE tables that they are coded with. It builds and holds them; the predefined ones are
// constants.
//
// After begin_i it takes bytes from a window. done_o stands for one cycle, with sequences_o; with
// some, the tables are ready then. error_o does instead.

module nkv_zstd_tables
  import nkv_zstd_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        forget_i,            // There are no tables to be repeated.
  input  logic        begin_i,
  input  logic        cancel_i,

  input  logic        valid_i,             // bytes_i are there.
  input  logic [7:0]  bytes_i[3],
  output logic [1:0]  take_o,

  output logic [16:0] sequences_o,
  output logic        done_o,
  output logic        error_o,

  input  logic        read_i,
  input  fse_state_t  state_i[Tables],
  output logic [3:0]  log_o[Tables],
  output fse_entry_t  entry_o[Tables]
);

  typedef enum logic [3:0] {
    Idle, Number, Modes, Table, Described, Next, Wait, Done
  } state_e;
  state_e state_q;
  table_e which_q;
  logic [5:0] mode_bits_q;                 // The present table's on top.
  logic has_tables_q;
  logic [Tables-1:0] is_predefined_q;
  wire table_mode_e mode = table_mode_e'(mode_bits_q[5:4]);

  logic [3:0] max_log;
  logic [5:0] greatest;                    // Symbol that the table may have.
  always_comb begin
    max_log = which_q == Offsets ? 4'd8 : 4'd9;
    greatest = which_q == Offsets ? 6'd31 : last_symbol(which_q);
  end

  logic [1:0] counts_take;
  logic log_valid, count_valid, counts_done, counts_error;
  logic [3:0] log;
  logic [5:0] count_symbol;
  fse_count_t count;
  wire describes = state_q == Table && mode == TableDescribed;
  nkv_zstd_fse_counts u_counts (
    .clk_i, .rst_ni,
    .begin_i(describes), .max_log_i(max_log), .last_symbol_i(greatest), .cancel_i,
    .valid_i(valid_i && state_q == Described), .bytes_i, .take_o(counts_take),
    .log_valid_o(log_valid), .log_o(log),
    .count_valid_o(count_valid), .symbol_o(count_symbol), .count_o(count),
    .done_o(counts_done), .error_o(counts_error)
  );

  // ---- The table at hand is given its counts ---------------------------------------------------
  wire gives_rle = state_q == Table && mode == TableRle && valid_i;
  wire [5:0] symbol = gives_rle ? bytes_i[0][5:0] : count_symbol;
  wire [3:0] new_log = gives_rle ? 4'd0 : log;

  logic [Tables-1:0] ready;
  for (genvar t = 0; t < Tables; ++t) begin : gen_table
    localparam int unsigned MaxLog = t == 1 ? 8 : 9;
    localparam predefined_t Predefined = predefined_table(table_e'(t));
    wire is_it = which_q == table_e'(t);
    logic [3:0] built_log;
    fse_entry_t built, predefined_q;
    nkv_zstd_fse_table #(.MaxLog(MaxLog)) u_table (
      .clk_i, .rst_ni,
      .begin_i(is_it && (log_valid || gives_rle)), .log_i(new_log), .is_rle_i(gives_rle),
      .count_valid_i(is_it && count_valid), .symbol_i(symbol), .count_i(count),
      .end_i(is_it && counts_done),
      .ready_o(ready[t]), .log_o(built_log),
      .read_i, .state_i(state_i[t][MaxLog-1:0]), .entry_o(built)
    );
    always_ff @(posedge clk_i) if (read_i) predefined_q <= Predefined[state_i[t][5:0]];
    assign log_o[t] = is_predefined_q[t] ? predefined_log(table_e'(t)) : built_log;
    assign entry_o[t] = is_predefined_q[t] ? predefined_q : built;
  end

  wire is_long = bytes_i[0][7];
  wire is_longest = bytes_i[0] == 8'hff;
  always_comb begin
    unique case (state_q)
      Number: take_o = !valid_i ? 2'd0 : is_longest ? 2'd3 : is_long ? 2'd2 : 2'd1;
      Modes: take_o = {1'b0, valid_i};
      Table: take_o = {1'b0, gives_rle};
      Described: take_o = counts_take;
      default: take_o = '0;
    endcase
    error_o = counts_error;
    unique case (state_q)
      Number: if (valid_i && bytes_i[0] == 8'h80 && bytes_i[1] == '0) error_o = 1'b1;
      Modes: if (valid_i && bytes_i[0][1:0] != '0) error_o = 1'b1;
      Table: begin
        if (gives_rle && bytes_i[0] > {2'b0, greatest}) error_o = 1'b1;
        if (mode == TableRepeated && !has_tables_q) error_o = 1'b1;
      end
      default: ;
    endcase
  end
  assign done_o = state_q == Done;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Idle;
      which_q <= LiteralLengths;
      mode_bits_q <= '0;
      has_tables_q <= 1'b0;
      is_predefined_q <= '0;
      sequences_o <= '0;
    end else begin
      unique case (state_q)
        Idle: if (begin_i) state_q <= Number;
        Number: begin
          if (is_longest) sequences_o <= {1'b0, bytes_i[2], bytes_i[1]} + 17'h7f00;
          else if (is_long) sequences_o <= {2'b0, bytes_i[0][6:0], bytes_i[1]};
          else sequences_o <= 17'(bytes_i[0]);
          if (valid_i) state_q <= bytes_i[0] == '0 ? Done : Modes;
        end
        Modes: begin
          mode_bits_q <= bytes_i[0][7:2];
          which_q <= LiteralLengths;
          if (valid_i) state_q <= Table;
        end
        Table: begin
          if (mode != TableRepeated) is_predefined_q[which_q] <= mode == TablePredefined;
          unique case (mode)
            TableRle: if (valid_i) state_q <= Next;
            TableDescribed: state_q <= Described;
            default: state_q <= Next;
          endcase
        end
        Described: if (counts_done) state_q <= Next;
        Next: begin
          mode_bits_q <= mode_bits_q << 2;
          which_q <= table_e'(which_q + 2'd1);
          state_q <= which_q == MatchLengths ? Wait : Table;
        end
        Wait: begin
          has_tables_q <= 1'b1;
          if ((ready | is_predefined_q) == '1) state_q <= Done;
        end
        default: state_q <= Idle;
      endcase
      if (cancel_i || error_o) state_q <= Idle;
      if (forget_i) has_tables_q <= 1'b0;
    end
  end

endmodule
