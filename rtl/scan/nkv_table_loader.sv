// Sequencer of the table loaders: as soon as a half page's weights are there and its tables are
// free, it walks the 16 sums of 4 channels in Gray order, one channel in or out per cycle.
//
// Two banks of weights (of 2 halves) and two of tables, each used in turn. 16 cycles a half, back
// to back, or a page where both halves go together. A page's tables are ready before its last steps, which
// come in time for beats that are begun now.

module nkv_table_loader
  import nkv_scan_pkg::*;
(
  input  logic clk_i,
  input  logic rst_ni,

  input  logic all_rows_i,        // Both halves go together, everywhere below; held.

  // Weights: room for a half, taken by half_begins_i; whole when half_whole_i.
  output logic half_room_o,
  input  logic half_begins_i,
  input  logic half_whole_i,
  output logic weight_bank_o,     // Where weights that arrive belong, beside their half

  // To every table: channel step_channel_o goes in or out after entry_o has been written.
  output logic       step_valid_o,
  output logic       step_bank_o,    // Of weights, and of tables
  output logic [1:0] step_half_o,    // Whose: of rows 0..3, of rows 4..7
  output logic [1:0] step_channel_o,
  output logic       step_adds_o,
  output logic [3:0] step_entry_o,

  // Tables: page_ready_o while there is one to use, in bank page_bank_o; page_done_i frees it.
  output logic page_ready_o,
  output logic page_bank_o,
  input  logic page_done_i,      // Its last beat has been issued
  input  logic page_free_i       // 2 cycles later: what is loaded from now on comes after it
);

  // Halves whose room is taken, and those that are whole.
  logic [2:0] taken_q, whole_q;
  logic running_q, half_q, bank_q, write_half_q, write_bank_q, read_bank_q;
  logic [3:0] count_q;
  logic [1:0] tables_q;         // Tables in use or being loaded
  logic [1:0] ready_q;          // Tables loaded and not issued
  wire [3:0] next = count_q + 1'b1;
  wire [3:0] gray = count_q ^ (count_q >> 1);
  wire [3:0] gray_next = next ^ (next >> 1);
  wire [3:0] flip = gray ^ gray_next;
  wire half_ends = running_q && count_q == 4'd15;
  wire page_ends = half_ends && (half_q || all_rows_i);
  // A beat reads its tables 4 cycles after it was begun, and room for weights is filled 2 cycles after it was
  // taken at the earliest: by then the last step has written its entry and read its weight.
  wire half_nears = running_q && count_q == 4'd12;
  wire page_nears = half_nears && (half_q || all_rows_i);
  // What a walk is worth, in halves.
  wire [2:0] halves = all_rows_i ? 3'd2 : 3'd1;
  wire idle_after = !running_q || half_ends;
  // The half that would begin now, behind one that ends now.
  wire next_half = half_q ^ (half_ends && !all_rows_i);
  wire whole_left = whole_q > (half_ends ? halves : '0);
  wire begins = idle_after && whole_left && (next_half || tables_q != 2'd2);

  assign half_room_o = taken_q <= 3'd4 - halves;
  assign weight_bank_o = write_bank_q;
  assign step_valid_o = running_q;
  assign step_bank_o = bank_q;
  assign step_half_o = {half_q || all_rows_i, !half_q};
  assign step_channel_o = {flip[3] | flip[2], flip[3] | flip[1]};
  assign step_adds_o = |(flip & gray_next);
  assign step_entry_o = gray;
  assign page_ready_o = ready_q != '0;
  assign page_bank_o = read_bank_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      taken_q <= '0;
      whole_q <= '0;
      running_q <= 1'b0;
      half_q <= 1'b0;
      bank_q <= 1'b0;
      write_half_q <= 1'b0;
      write_bank_q <= 1'b0;
      read_bank_q <= 1'b0;
      count_q <= '0;
      tables_q <= '0;
      ready_q <= '0;
    end else begin
      taken_q <= taken_q + (half_begins_i ? halves : '0) - (half_nears ? halves : '0);
      whole_q <= whole_q + (half_whole_i ? halves : '0) - (half_ends ? halves : '0);
      tables_q <= tables_q + 2'(begins && !next_half) - 2'(page_free_i);
      ready_q <= ready_q + 2'(page_nears) - 2'(page_done_i);
      if (half_whole_i) begin
        write_half_q <= !write_half_q && !all_rows_i;
        write_bank_q <= write_bank_q ^ (write_half_q || all_rows_i);
      end
      if (running_q) count_q <= count_q + 1'b1;
      if (half_ends) begin
        half_q <= !half_q && !all_rows_i;
        bank_q <= bank_q ^ page_ends;
      end
      running_q <= begins || !idle_after;
      if (page_done_i) read_bank_q <= !read_bank_q;
    end
  end

endmodule
