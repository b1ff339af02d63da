// What nkv_agilex_turns promises to reads and writes that are held until they are taken: the controller
// is never offered both, nothing is offered that was not asked for or taken back again, a write that was
// begun is finished first, and neither side waits for more than one of the other.

module nkv_agilex_turns_proof (
  input logic clk_i,
  input logic ar_valid_i,
  input logic aw_valid_i,
  input logic w_valid_i,
  input logic ar_ready_i,
  input logic aw_ready_i,
  input logic w_ready_i
);

  logic rst_n = 1'b0;
  logic ar_ready, aw_ready, w_ready, ar_valid, aw_valid, w_valid;
  logic ar_waits = 1'b0;      // Asked in the last cycle, not taken.
  logic aw_waits = 1'b0;
  logic w_waits = 1'b0;
  logic ar_offered = 1'b0;    // Offered in the last cycle, not taken.
  logic aw_offered = 1'b0;
  logic w_offered = 1'b0;
  logic begun = 1'b0;         // One part of a write was taken, the other one waits.
  logic read_passed = 1'b0;   // One was taken while a write waits,
  logic write_passed = 1'b0;  // and the other way round.

  nkv_agilex_turns u_dut (
    .clk_i,
    .rst_ni(rst_n),
    .ar_valid_i,
    .ar_ready_o(ar_ready),
    .aw_valid_i,
    .aw_ready_o(aw_ready),
    .w_valid_i,
    .w_ready_o(w_ready),
    .ar_valid_o(ar_valid),
    .ar_ready_i,
    .aw_valid_o(aw_valid),
    .aw_ready_i,
    .w_valid_o(w_valid),
    .w_ready_i
  );

  wire read = ar_valid && ar_ready_i;
  wire aw_taken = aw_valid && aw_ready_i;
  wire w_taken = w_valid && w_ready_i;
  wire asks_write = aw_valid_i || w_valid_i;
  wire left = (aw_valid_i && !aw_taken) || (w_valid_i && !w_taken);
  wire write = (aw_taken || w_taken) && !left;  // Its last part.

  always_ff @(posedge clk_i) begin
    rst_n <= 1'b1;
    if (rst_n) begin
      ar_waits <= ar_valid_i && !read;
      aw_waits <= aw_valid_i && !aw_taken;
      w_waits <= w_valid_i && !w_taken;
      ar_offered <= ar_valid && !read;
      aw_offered <= aw_valid && !aw_taken;
      w_offered <= w_valid && !w_taken;
      begun <= left && (begun || aw_taken || w_taken);
      read_passed <= asks_write && !write && (read_passed || read);
      write_passed <= ar_valid_i && !read && (write_passed || write);
    end
  end

  always_comb begin
    if (rst_n) begin
      assume (!ar_waits || ar_valid_i);
      // A write's address and data are asked for at once; what is left of it comes before the next one.
      if (aw_waits || w_waits) assume (aw_valid_i == aw_waits && w_valid_i == w_waits);
      else assume (aw_valid_i == w_valid_i);
      a_one_at_a_time : assert (!(ar_valid && (aw_valid || w_valid)));
      a_asked_for : assert ((!ar_valid || ar_valid_i) && (!aw_valid || aw_valid_i) && (!w_valid || w_valid_i));
      a_work_conserving : assert (ar_valid || aw_valid || w_valid || !(ar_valid_i || asks_write));
      a_stays : assert ((!ar_offered || ar_valid) && (!aw_offered || aw_valid) && (!w_offered || w_valid));
      a_taken : assert (ar_ready == read && aw_ready == (aw_ready_i && (aw_valid || w_valid)) &&
                        w_ready == (w_ready_i && (aw_valid || w_valid)));
      if (begun) a_finished_first : assert (!ar_valid);
      if (read && asks_write) a_write_waits_for_one : assert (!read_passed);
      if (write && ar_valid_i) a_read_waits_for_one : assert (!write_passed);
    end
  end

endmodule
