// Sequencer of the table loaders: as soon as a half page's weights are there and its tables are
// free, it walks the 16 sums of 4 channels in Gray order, one channel in or out per cycle.
//
// Two banks of weights (of 2 halves) and two of tables, each used in turn. 16 cycles a half, back
// to back; a page's tables are ready 3 cycles after its second half's last step.

module nkv_table_loader
  import nkv_scan_pkg::*;
(
  input  logic clk_i,
  input  logic rst_ni,

  // Weights: room for a half, taken by half_begins_i; whole when half_whole_i.
  output logic half_room_o,
  input  logic half_begins_i,
  input  logic half_whole_i,
  output logic weight_bank_o,     // Where weights that arrive belong, beside their half

  // To every table: channel step_channel_o goes in or out after entry_o has been written.
  output logic       step_valid_o,
  output logic       step_bank_o,    // Of weights, and of tables
  output logic       step_half_o,
  output logic [1:0] step_channel_o,
  output logic       step_adds_o,
  output logic [3:0] step_entry_o,

  // Tables: page_ready_o while there is one to use, in bank page_bank_o; page_done_i frees it.
  output logic page_ready_o,
  output logic page_bank_o,
  input  logic page_done_i,      // Its last beat has been issued
  input  logic page_free_i       // Its last beat has read the tables
);

  // Halves whose room is taken, and those that are whole.
  logic [2:0] taken_q, whole_q;
  logic running_q, half_q, bank_q, write_half_q, write_bank_q, read_bank_q;
  logic [3:0] count_q;
  logic [1:0] tables_q;         // Tables in use or being loaded
  logic [1:0] ready_q;          // Tables loaded and not issued
  logic [2:0] settling_q;       // Loaded tables on their way to ready_q
  wire [3:0] next = count_q + 1'b1;
  wire [3:0] gray = count_q ^ (count_q >> 1);
  wire [3:0] gray_next = next ^ (next >> 1);
  wire [3:0] flip = gray ^ gray_next;
  wire half_ends = running_q && count_q == 4'd15;
  wire page_ends = half_ends && half_q;
  wire idle_after = !running_q || half_ends;
  // The half that would begin now, behind one that ends now.
  wire next_half = half_q ^ half_ends;
  wire whole_left = whole_q > {2'b0, half_ends};
  wire begins = idle_after && whole_left && (next_half || tables_q != 2'd2);

  assign half_room_o = taken_q != 3'd4;
  assign weight_bank_o = write_bank_q;
  assign step_valid_o = running_q;
  assign step_bank_o = bank_q;
  assign step_half_o = half_q;
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
      settling_q <= '0;
    end else begin
      taken_q <= taken_q + 3'(half_begins_i) - 3'(half_ends);
      whole_q <= whole_q + 3'(half_whole_i) - 3'(half_ends);
      tables_q <= tables_q + 2'(begins && !next_half) - 2'(page_free_i);
      settling_q <= {settling_q[1:0], page_ends};
      ready_q <= ready_q + 2'(settling_q[2]) - 2'(page_done_i);
      if (half_whole_i) begin
        write_half_q <= !write_half_q;
        write_bank_q <= write_bank_q ^ write_half_q;
      end
      if (running_q) count_q <= count_q + 1'b1;
      if (half_ends) begin
        half_q <= !half_q;
        bank_q <= bank_q ^ half_q;
      end
      running_q <= begins || !idle_after;
      if (page_done_i) read_bank_q <= !read_bank_q;
    end
  end

endmodule
