// Writes of an engine, one burst each, and whether memory has them all. At most 63 wait for memory's
// answer. A burst outside the window is dropped; commands are checked before they write.

module nkv_writer
  import nkv_pkg::*;
#(
  parameter logic [2:0] Client = '0     // Upper bits of the ids.
) (
  input  logic           clk_i,
  input  logic           rst_ni,
  input  logic           clear_i,       // Forgets what was not accepted by memory yet.

  input  logic           request_valid_i,
  output logic           request_ready_o,
  input  write_request_t request_i,
  input  logic           inside_i,      // Guarded: it lies in the window,
  input  address_t       address_i,     // here.
  output logic           idle_o,        // Memory has all that was accepted.

  output logic           w_valid_o,
  input  logic           w_ready_i,
  output axi_w_t         w_o,
  input  logic           b_valid_i,
  input  axi_b_t         b_i
);

  logic           full_q;
  write_request_t request_q;
  address_t       address_q;
  logic [1:0]     epoch_q;
  logic [5:0]     unanswered_q;

  wire axi_id_t id = axi_id_t'({Client, epoch_q, 7'b0});
  wire sent = w_valid_o && w_ready_i;
  wire answered = b_valid_i && b_i.id == id;

  assign w_valid_o = full_q && unanswered_q != '1;
  assign w_o = '{
      id: id,
      addr: address_q,
      strb: request_q.strobes,
      poison: 1'b0,
      data: request_q.data
  };
  assign request_ready_o = !full_q || sent;
  assign idle_o = !full_q && unanswered_q == '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      full_q <= 1'b0;
      request_q <= '0;
      address_q <= '0;
      epoch_q <= '0;
      unanswered_q <= '0;
    end else if (clear_i) begin
      full_q <= 1'b0;
      epoch_q <= epoch_q + 2'd1;
      unanswered_q <= '0;
    end else begin
      if (request_ready_o) begin
        full_q <= request_valid_i && inside_i;
        if (request_valid_i) begin
          request_q <= request_i;
          address_q <= address_i;
        end
      end
      unanswered_q <= unanswered_q + 6'(sent) - 6'(answered);
    end
  end

  // The guard has made an address of it.
  wire unused_offset = ^request_q.address;
  wire unused_error = b_i.error;

endmodule
