// What nkv_writer promises, of the writes that do not trail and of those that do: memory owes nothing
// exactly while it says so, whatever is cleared in between; those that trail and those that do not are done
// exactly when memory has answered them; and a refusal is told until others begin. Memory answers what it was
// sent, once, and nothing is forfeit.

module nkv_writer_proof
  import nkv_pkg::*;
(
  input logic           clk_i,
  input logic           clear_i,
  input logic           request_valid_i,
  input write_request_t request_i,
  input logic           trailing_i,
  input logic           inside_i,
  input address_t       address_i,
  input logic           begins_i,
  input logic           trailing_ends_i,
  input logic           w_ready_i,
  input logic           b_valid_i,
  input logic           b_trails_i,
  input logic           b_error_i
);

  localparam logic [2:0] Client = 3'd5;
  typedef logic [6:0] count_t;

  logic rst_n = 1'b0;
  logic quiet, ready, w_valid;
  logic [1:0] idle, failed;
  axi_w_t w;

  count_t [1:0] owed = '0;       // [1]: of those that trail.
  logic   [1:0] refused = '0;
  logic   [1:0] waits = '0;      // Accepted, and not at memory.

  nkv_writer #(
    .Client(Client)
  ) u_dut (
    .clk_i,
    .rst_ni(rst_n),
    .clear_i,
    .forfeit_i(1'b0),
    .quiet_o(quiet),
    .request_valid_i,
    .request_ready_o(ready),
    .request_i,
    .trailing_i,
    .inside_i,
    .address_i,
    .idle_o(idle[0]),
    .trailing_idle_o(idle[1]),
    .begins_i,
    .trailing_ends_i,
    .failed_o(failed[0]),
    .trailing_failed_o(failed[1]),
    .w_valid_o(w_valid),
    .w_ready_i,
    .w_o(w),
    .b_valid_i,
    .b_i('{id: axi_id_t'({Client, 8'b0, b_trails_i}), error: b_error_i})
  );

  wire sent = w_valid && w_ready_i;
  wire accepted = request_valid_i && ready && inside_i && !failed[trailing_i] && !clear_i;

  always_ff @(posedge clk_i) begin
    rst_n <= 1'b1;
    if (rst_n) begin
      for (int unsigned i = 0; i < 2; i++) begin
        owed[i] <= owed[i] + count_t'(sent && w.id[0] == 1'(i)) -
            count_t'(b_valid_i && b_trails_i == 1'(i));
        if (b_valid_i && b_error_i && b_trails_i == 1'(i)) refused[i] <= !clear_i;
        else if (clear_i || (i == 0 ? begins_i : trailing_ends_i)) refused[i] <= 1'b0;
        if (clear_i || (sent && w.id[0] == 1'(i))) waits[i] <= 1'b0;
        if (accepted && trailing_i == 1'(i)) waits[i] <= 1'b1;
      end
    end
  end

  always_comb begin
    if (rst_n) begin
      // Memory answers what it owes.
      assume (!b_valid_i || owed[b_trails_i] != '0);
      a_quiet_tells_what_memory_owes : assert (quiet == (owed == '0));
      a_done_when_memory_has_answered : assert (idle == {!waits[1] && owed[1] == '0,
                                                         !waits[0] && owed[0] == '0});
      a_refusals_are_told : assert (failed == refused);
      a_only_what_was_accepted_is_sent : assert (!w_valid || waits[w.id[0]]);
    end
  end

endmodule
