// nkv_shell with ports that C++ can name one by one: arrays over slices of memory, of which an engine's
// ports are structs as nkv_engine has them.

module nkv_shell_flat
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
  import nkv_inline_pkg::*;
#(
  parameter int unsigned Slices = 1   // And engines.
) (
  input  logic         clk_i,
  input  logic         rst_ni,

  input  logic         csr_req_i,
  input  logic         csr_we_i,
  input  logic [31:0]  csr_addr_i,
  input  logic [63:0]  csr_wdata_i,
  output logic [63:0]  csr_rdata_o,
  output logic         csr_error_o,
  input  logic [63:0]  memory_bytes_i,
  output logic [18:0]  irq_o,

  // The host. A write's address and data are taken together.
  input  logic         host_ar_valid_i[Slices],
  output logic         host_ar_ready_o[Slices],
  input  logic [11:0]  host_ar_id_i[Slices],
  input  logic [63:0]  host_ar_addr_i[Slices],
  output logic         host_r_valid_o[Slices],
  input  logic         host_r_ready_i[Slices],
  output logic [11:0]  host_r_id_o[Slices],
  output logic         host_r_error_o[Slices],
  output logic         host_r_poison_o[Slices],
  output logic [511:0] host_r_data_o[Slices],
  input  logic         host_w_valid_i[Slices],
  output logic         host_w_ready_o[Slices],
  input  logic [11:0]  host_w_id_i[Slices],
  input  logic [63:0]  host_w_addr_i[Slices],
  input  logic [63:0]  host_w_strb_i[Slices],
  input  logic         host_w_poison_i[Slices],
  input  logic [511:0] host_w_data_i[Slices],
  output logic         host_b_valid_o[Slices],
  input  logic         host_b_ready_i[Slices],
  output logic [11:0]  host_b_id_o[Slices],
  output logic         host_b_error_o[Slices],
  output logic [1:0]   load_o[Slices],

  // Memory. An id's highest bit says that it is not the host's.
  output logic         ar_valid_o[Slices],
  input  logic         ar_ready_i[Slices],
  output logic [12:0]  ar_id_o[Slices],
  output logic [63:0]  ar_addr_o[Slices],
  input  logic         r_valid_i[Slices],
  output logic         r_ready_o[Slices],
  input  logic [12:0]  r_id_i[Slices],
  input  logic         r_error_i[Slices],
  input  logic         r_poison_i[Slices],
  input  logic [511:0] r_data_i[Slices],
  output logic         w_valid_o[Slices],
  input  logic         w_ready_i[Slices],
  output logic [12:0]  w_id_o[Slices],
  output logic [63:0]  w_addr_o[Slices],
  output logic [63:0]  w_strb_o[Slices],
  output logic         w_poison_o[Slices],
  output logic [511:0] w_data_o[Slices],
  input  logic         b_valid_i[Slices],
  output logic         b_ready_o[Slices],
  input  logic [12:0]  b_id_i[Slices],
  input  logic         b_error_i[Slices],

  // The engines, each a Verilated model of its own.
  output logic            engine_clear_o,
  output logic            engine_forfeit_o,
  input  logic            engine_quiet_i[Slices],
  output logic            command_valid_o[Slices],
  input  logic            command_ready_i[Slices],
  output engine_command_t command_o[Slices],
  input  logic            outcome_valid_i[Slices],
  output logic            outcome_ready_o[Slices],
  input  outcome_t        outcome_i[Slices],
  input  results_t        results_i[Slices],
  input  logic            fatal_i[Slices],
  input  logic            engine_ar_valid_i[Slices],
  output logic            engine_ar_ready_o[Slices],
  input  axi_ar_t         engine_ar_i[Slices],
  output logic            engine_r_valid_o[Slices],
  output axi_r_t          engine_r_o[Slices],
  input  logic            engine_w_valid_i[Slices],
  output logic            engine_w_ready_o[Slices],
  input  axi_w_t          engine_w_i[Slices],
  output logic            engine_b_valid_o[Slices],
  output axi_b_t          engine_b_o[Slices]
);

  typedef logic [Slices-1:0] each_t;

  host_request_t   [Slices-1:0] host;
  host_answer_t    [Slices-1:0] host_answer;
  memory_request_t [Slices-1:0] memory;
  memory_answer_t  [Slices-1:0] memory_answer;
  dev_load_e       [Slices-1:0] load;
  each_t command_valid, command_ready, outcome_valid, outcome_ready, fatal, quiet;
  each_t engine_ar_valid, engine_ar_ready, engine_r_valid;
  each_t engine_w_valid, engine_w_ready, engine_b_valid;
  engine_command_t [Slices-1:0] command;
  outcome_t [Slices-1:0] outcome;
  results_t [Slices-1:0] results;
  axi_ar_t [Slices-1:0] engine_ar;
  axi_r_t [Slices-1:0] engine_r;
  axi_w_t [Slices-1:0] engine_w;
  axi_b_t [Slices-1:0] engine_b;

  for (genvar i = 0; i < int'(Slices); i++) begin : gen_slice
    // A write's address and data are offered once both are taken.
    assign host[i] = '{
        ar_valid: host_ar_valid_i[i],
        ar: '{id: host_ar_id_i[i], addr: address_t'(host_ar_addr_i[i])},
        r_ready: host_r_ready_i[i],
        aw_valid: host_w_valid_i[i] && host_answer[i].w_ready,
        aw: '{id: host_w_id_i[i], addr: address_t'(host_w_addr_i[i])},
        w_valid: host_w_valid_i[i] && host_answer[i].aw_ready,
        w: '{strb: host_w_strb_i[i], poison: host_w_poison_i[i], data: host_w_data_i[i]},
        b_ready: host_b_ready_i[i]
    };
    assign host_ar_ready_o[i] = host_answer[i].ar_ready;
    assign host_r_valid_o[i] = host_answer[i].r_valid;
    assign {host_r_id_o[i], host_r_error_o[i], host_r_poison_o[i], host_r_data_o[i]} =
        host_answer[i].r;
    assign host_w_ready_o[i] = host_answer[i].aw_ready && host_answer[i].w_ready;
    assign host_b_valid_o[i] = host_answer[i].b_valid;
    assign {host_b_id_o[i], host_b_error_o[i]} = host_answer[i].b;
    assign load_o[i] = load[i];

    assign ar_valid_o[i] = memory[i].ar_valid;
    assign ar_id_o[i] = {memory[i].ar.is_near, memory[i].ar.access.id};
    assign ar_addr_o[i] = 64'(memory[i].ar.access.addr);
    assign r_ready_o[i] = memory[i].r_ready;
    assign w_valid_o[i] = memory[i].aw_valid && memory[i].w_valid;
    assign w_id_o[i] = {memory[i].aw.is_near, memory[i].aw.access.id};
    assign w_addr_o[i] = 64'(memory[i].aw.access.addr);
    assign {w_strb_o[i], w_poison_o[i], w_data_o[i]} = memory[i].w;
    assign b_ready_o[i] = memory[i].b_ready;
    assign memory_answer[i] = '{
        ar_ready: ar_ready_i[i],
        r_valid: r_valid_i[i],
        r: {r_id_i[i], r_error_i[i], r_poison_i[i], r_data_i[i]},
        aw_ready: w_ready_i[i] && memory[i].w_valid,
        w_ready: w_ready_i[i] && memory[i].aw_valid,
        b_valid: b_valid_i[i],
        b: {b_id_i[i], b_error_i[i]}
    };

    assign command_valid_o[i] = command_valid[i];
    assign command_ready[i] = command_ready_i[i];
    assign command_o[i] = command[i];
    assign outcome_valid[i] = outcome_valid_i[i];
    assign outcome_ready_o[i] = outcome_ready[i];
    assign outcome[i] = outcome_i[i];
    assign results[i] = results_i[i];
    assign fatal[i] = fatal_i[i];
    assign quiet[i] = engine_quiet_i[i];
    assign engine_ar_valid[i] = engine_ar_valid_i[i];
    assign engine_ar_ready_o[i] = engine_ar_ready[i];
    assign engine_ar[i] = engine_ar_i[i];
    assign engine_r_valid_o[i] = engine_r_valid[i];
    assign engine_r_o[i] = engine_r[i];
    assign engine_w_valid[i] = engine_w_valid_i[i];
    assign engine_w_ready_o[i] = engine_w_ready[i];
    assign engine_w[i] = engine_w_i[i];
    assign engine_b_valid_o[i] = engine_b_valid[i];
    assign engine_b_o[i] = engine_b[i];

    // Addresses have 52 bits.
    wire unused_bits = ^{host_ar_addr_i[i][63:AddressBits], host_w_addr_i[i][63:AddressBits]};
  end

  nkv_shell #(
    .Slices(Slices)
  ) u_shell (
    .clk_i,
    .rst_ni,
    .csr_req_i,
    .csr_we_i,
    .csr_addr_i,
    .csr_wdata_i,
    .csr_rdata_o,
    .csr_error_o,
    .memory_bytes_i,
    .irq_o,
    .host_i           (host),
    .host_o           (host_answer),
    .load_o           (load),
    .memory_o         (memory),
    .memory_i         (memory_answer),
    .engine_clear_o,
    .engine_forfeit_o,
    .engine_quiet_i   (quiet),
    .command_valid_o  (command_valid),
    .command_ready_i  (command_ready),
    .command_o        (command),
    .outcome_valid_i  (outcome_valid),
    .outcome_ready_o  (outcome_ready),
    .outcome_i        (outcome),
    .results_i        (results),
    .fatal_i          (fatal),
    .engine_ar_valid_i(engine_ar_valid),
    .engine_ar_ready_o(engine_ar_ready),
    .engine_ar_i      (engine_ar),
    .engine_r_valid_o (engine_r_valid),
    .engine_r_o       (engine_r),
    .engine_w_valid_i (engine_w_valid),
    .engine_w_ready_o (engine_w_ready),
    .engine_w_i       (engine_w),
    .engine_b_valid_o (engine_b_valid),
    .engine_b_o       (engine_b)
  );

endmodule
