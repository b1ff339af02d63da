// Which queues run, and with what. A queue is taken up, or refused, when software enables it, with the
// registers that it has then, and stops when software disables it and nothing of it is in flight any
// more; one that was disabled stops even if it is enabled again meanwhile. One queue a cycle is looked
// at. Sections "Registers" of the contract's reference: QUEUE_CONTROL, QUEUE_STATUS.

module nkv_queue_setup
  import nkv_abi_pkg::*;
  import nkv_queue_pkg::*;
(
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         reset_i,           // CONTROL.RESET

  // verilator lint_off UNUSEDSIGNAL
  input  csr_reg2hw_t  registers_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic [63:0]  memory_bytes_i,
  output csr_queue_status_t [MaxQueues-1:0] status_o,

  input  queue_t       look_i,            // This cycle's queue:
  input  logic         busy_i,            // something of it is in flight;
  output logic         restart_o,         // it is taken up, or has stopped;
  output queue_setup_t look_setup_o,      // it was enabled with this.

  output logic [MaxQueues-1:0] live_o,    // Queues whose commands may be fetched and started.
  input  queue_t       queue_i,
  output queue_setup_t setup_o            // Of queue_i.
);

  (* ram_style = "distributed" *) queue_setup_t setup_q[MaxQueues];
  logic [MaxQueues-1:0] enable, enabled_q, stop_q, running_q, refused_q;
  logic acceptable;
  logic [3:0] ring_log2;

  for (genvar i = 0; i < int'(MaxQueues); i++) begin : gen_queue
    assign enable[i] = registers_i.queue_control[i].enable;
    assign status_o[i] = '{refused: refused_q[i], running: running_q[i]};
  end

  nkv_queue_check u_check (
    .memory_bytes_i,
    .sq_base_i     (registers_i.sq_base[look_i]),
    .cq_base_i     (registers_i.cq_base[look_i]),
    .ring_entries_i(registers_i.ring_entries[look_i]),
    .window_base_i (registers_i.window_base[look_i]),
    .window_bytes_i(registers_i.window_bytes[look_i]),
    .acceptable_o  (acceptable),
    .ring_log2_o   (ring_log2)
  );

  wire starts = enable[look_i] && !enabled_q[look_i];
  wire stops = enabled_q[look_i] && (stop_q[look_i] || !enable[look_i]) && !busy_i;

  assign restart_o = starts || stops;
  assign live_o = running_q & enable & ~stop_q;
  assign look_setup_o = setup_q[look_i];
  assign setup_o = setup_q[queue_i];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      enabled_q <= '0;
      stop_q <= '0;
      running_q <= '0;
      refused_q <= '0;
    end else if (reset_i) begin
      enabled_q <= '0;
      stop_q <= '0;
      running_q <= '0;
      refused_q <= '0;
    end else begin
      stop_q <= stop_q | (enabled_q & ~enable);
      if (restart_o) begin
        enabled_q[look_i] <= starts;
        stop_q[look_i] <= 1'b0;
        running_q[look_i] <= starts && acceptable;
        refused_q[look_i] <= starts && !acceptable;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (starts) begin
      setup_q[look_i] <= '{
          sq_base: nkv_pkg::address_t'(registers_i.sq_base[look_i]),
          cq_base: nkv_pkg::address_t'(registers_i.cq_base[look_i]),
          ring_log2: ring_log2,
          domain: '{
              tenant: registers_i.tenant[look_i].number,
              window_bytes: nkv_pkg::address_t'(registers_i.window_bytes[look_i]),
              window_base: nkv_pkg::address_t'(registers_i.window_base[look_i])
          }
      };
    end
  end

endmodule
