// nkv_front with ports that C++ can name one by one, those of engines as arrays.

module nkv_front_bench
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_inline_pkg::*;
  import nkv_queue_pkg::*;
#(
  parameter int unsigned Engines = 1
) (
  input  logic         clk_i,
  input  logic         rst_ni,

  input  logic         csr_req_i,
  input  logic         csr_we_i,
  input  logic [31:0]  csr_addr_i,
  input  logic [63:0]  csr_wdata_i,
  output logic [63:0]  csr_rdata_o,
  output logic [18:0]  irq_o,
  input  logic [63:0]  memory_bytes_i,
  input  logic [1:0]   hotness_i,

  output logic [3:0]   share_o,
  output logic [9:0]   age_cycles_o,
  output logic [9:0]   near_least_o,
  output logic [9:0]   read_limit_o,
  output logic [9:0]   write_limit_o,
  output logic [9:0]   optimal_o,
  output logic [9:0]   overload_o,
  output logic [15:0]  doorbell_enable_o,
  output logic [63:0]  doorbell_base_o,
  input  logic         doorbell_brings_tail_i[2],
  input  logic         doorbell_brings_head_i[2],
  input  logic [3:0]   doorbell_index_i[2],
  input  logic [15:0]  doorbell_tail_i[2],
  input  logic [15:0]  doorbell_head_i[2],

  output logic         ar_valid_o,
  input  logic         ar_ready_i,
  output logic [11:0]  ar_id_o,
  output logic [63:0]  ar_addr_o,
  input  logic         r_valid_i,
  input  logic [11:0]  r_id_i,
  input  logic         r_poison_i,
  input  logic [511:0] r_data_i,
  output logic         w_valid_o,
  input  logic         w_ready_i,
  output logic [11:0]  w_id_o,
  output logic [63:0]  w_addr_o,
  output logic [511:0] w_data_o,
  input  logic         b_valid_i,
  input  logic [11:0]  b_id_i,

  output logic         command_valid_o[Engines],
  input  logic         command_ready_i[Engines],
  output logic [15:0]  command_tenant_o[Engines],
  output logic [63:0]  command_window_base_o[Engines],
  output logic [511:0] command_o[Engines],
  input  logic         outcome_valid_i[Engines],
  output logic         outcome_ready_o[Engines],
  input  logic [7:0]   outcome_status_i[Engines],
  input  logic [63:0]  outcome_detail_i[Engines],
  input  logic [31:0]  outcome_stream_i[Engines],
  input  logic [31:0]  outcome_refine_i[Engines],
  input  logic [31:0]  outcome_exact_i[Engines],
  input  logic [31:0]  outcome_value_i[Engines],
  input  logic [7:0]   results_i[Engines],

  input  logic         event_ar_valid_i[Engines],
  input  logic         event_ar_ready_i[Engines],
  input  logic [9:0]   event_ar_len_i[Engines],
  input  logic         event_r_valid_i[Engines],
  input  logic         event_w_valid_i[Engines],
  input  logic         event_w_ready_i[Engines],
  input  logic         event_w_trails_i[Engines],
  input  logic         event_b_valid_i[Engines],
  input  logic         event_b_trails_i[Engines],
  input  logic         fatal_i[Engines]
);

  inline_control_t control;
  doorbell_control_t doorbells;
  doorbell_t [1:0] doorbell;
  axi_ar_t ar;
  axi_w_t w;
  logic [Engines-1:0] command_valid, command_ready, outcome_valid, outcome_ready, fatal;
  engine_command_t [Engines-1:0] command;
  outcome_t [Engines-1:0] outcome;
  results_t [Engines-1:0] results;
  port_events_t [Engines-1:0] events;
  logic unused_reset, unused_error;
  csr_access_t unused_access;

  assign {share_o, age_cycles_o, near_least_o, read_limit_o, write_limit_o, optimal_o, overload_o} =
      control;
  assign doorbell_enable_o = doorbells.enable;
  assign doorbell_base_o = 64'(doorbells.base);
  for (genvar i = 0; i < 2; i++) begin : gen_slice
    assign doorbell[i] = '{
        brings_tail: doorbell_brings_tail_i[i],
        brings_head: doorbell_brings_head_i[i],
        index: doorbell_index_i[i],
        tail: doorbell_tail_i[i],
        head: doorbell_head_i[i]
    };
  end
  assign ar_id_o = ar.id;
  assign ar_addr_o = 64'(ar.addr);
  assign w_id_o = w.id;
  assign w_addr_o = 64'(w.addr);
  assign w_data_o = w.data;
  for (genvar i = 0; i < int'(Engines); i++) begin : gen_engine
    assign command_valid_o[i] = command_valid[i];
    assign command_ready[i] = command_ready_i[i];
    assign command_tenant_o[i] = command[i].domain.tenant;
    assign command_window_base_o[i] = 64'(command[i].domain.window_base);
    assign command_o[i] = command[i].command;
    assign outcome_valid[i] = outcome_valid_i[i];
    assign outcome_ready_o[i] = outcome_ready[i];
    assign outcome[i] = '{
        bound: ~outcome_exact_i[i],
        rounds: outcome_value_i[i][7:0],
        flags: '0,
        value_bursts: outcome_value_i[i],
        exact_bursts: outcome_exact_i[i],
        refine_bursts: outcome_refine_i[i],
        stream_bursts: outcome_stream_i[i],
        count: '0,
        verdict: '{status: status_e'(outcome_status_i[i]), detail: outcome_detail_i[i]}
    };
    assign events[i] = {
      event_ar_valid_i[i], event_ar_ready_i[i], event_ar_len_i[i], event_r_valid_i[i],
      event_w_valid_i[i], event_w_ready_i[i], event_w_trails_i[i], event_b_valid_i[i],
      event_b_trails_i[i]
    };
    assign results[i] = results_i[i];
    assign fatal[i] = fatal_i[i];
    wire unused_window = ^command[i].domain.window_bytes;
  end

  nkv_front #(
    .Slices(2),
    .Engines(Engines),
    .AnswerCycles(1024)
  ) u_front (
    .clk_i,
    .rst_ni,
    .access_i       ({csr_req_i, csr_we_i, csr_addr_i, csr_wdata_i}),
    .rdata_o        (csr_rdata_o),
    .error_o        (unused_error),
    .irq_o,
    .reset_o        (unused_reset),
    .fatal_i        (fatal),
    .memory_bytes_i,
    .inline_o       (control),
    .doorbells_o    (doorbells),
    .doorbell_i     (doorbell),
    .access_o       (unused_access),
    .hotness_known_i(1'b0),
    .hotness_rdata_i('0),
    .hotness_i,
    .ar_valid_o,
    .ar_ready_i,
    .ar_o           (ar),
    .r_valid_i,
    .r_i            ({r_id_i, 1'b0, r_poison_i, 1'b1, r_data_i}),
    .w_valid_o,
    .w_ready_i,
    .w_o            (w),
    .b_valid_i,
    .b_i            ({b_id_i, 1'b0}),
    .command_valid_o(command_valid),
    .command_ready_i(command_ready),
    .command_o      (command),
    .outcome_valid_i(outcome_valid),
    .outcome_ready_o(outcome_ready),
    .outcome_i      (outcome),
    .results_i      (results),
    .events_i       (events)
  );

  wire unused_bits = ^{ar.len, w.strb, w.poison};

endmodule
