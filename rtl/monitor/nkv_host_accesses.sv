// The host's accesses on their way past the engines, one a cycle for a monitor: those of all slices,
// reads and writes, as nkv_access_turns has them.

module nkv_host_accesses
  import nkv_inline_pkg::*;
#(
  parameter int unsigned Slices = 1
) (
  input  logic clk_i,
  input  logic rst_ni,

  // verilator lint_off UNUSEDSIGNAL
  input  host_request_t [Slices-1:0] host_i,
  input  host_answer_t  [Slices-1:0] answer_i,
  // verilator lint_on UNUSEDSIGNAL

  output logic                  valid_o,
  output nkv_chmu_pkg::access_t access_o
);

  localparam int unsigned Sources = 2 * Slices;  // Reads, then writes.
  localparam int unsigned IndexBits = $clog2(Sources);

  logic [IndexBits-1:0] source;
  logic [Sources-1:0] taken;
  nkv_pkg::address_t asked[Sources], address;

  for (genvar i = 0; i < int'(Slices); i++) begin : gen_slice
    assign taken[i] = host_i[i].ar_valid && answer_i[i].ar_ready;
    assign asked[i] = host_i[i].ar.addr;
    assign taken[Slices+i] = host_i[i].aw_valid && answer_i[i].aw_ready;
    assign asked[Slices+i] = host_i[i].aw.addr;
  end

  nkv_access_turns #(
    .Sources(Sources)
  ) u_turns (
    .clk_i,
    .rst_ni,
    .taken_i  (taken),
    .address_i(asked),
    .valid_o,
    .source_o (source),
    .address_o(address)
  );

  assign access_o = '{is_write: source >= IndexBits'(Slices), dpa: address};

endmodule
