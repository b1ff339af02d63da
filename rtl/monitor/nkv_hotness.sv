// Two hotness monitors and their places among the registers: one for what the host accesses, one for
// what commands read. Sketches: memory is too large for exact counters on chip.

module nkv_hotness
  import nkv_abi_pkg::*;
  import nkv_queue_pkg::*;
#(
  parameter int unsigned ClockKhz = 400_000
) (
  input  logic        clk_i,
  input  logic        rst_ni,

  input  logic                  host_valid_i,
  input  nkv_chmu_pkg::access_t host_i,
  input  logic                  near_valid_i,
  input  nkv_chmu_pkg::access_t near_i,

  input  csr_access_t access_i,
  output logic        known_o,        // The access is to one of these registers.
  output logic [63:0] rdata_o,        // In the cycle after it.
  output logic [1:0]  interrupt_o     // For a cycle: host, near-data.
);

  localparam int unsigned OffsetBits = $clog2(HotnessWords) + 3;
  localparam int unsigned Monitors = 2;

  logic [Monitors-1:0] selected, valid;
  logic [63:0] rdata[Monitors];
  nkv_chmu_pkg::access_t access[Monitors];
  logic near_q;                       // The last access was to the second one's registers.

  assign valid = {near_valid_i, host_valid_i};
  assign access[0] = host_i;
  assign access[1] = near_i;
  assign selected = {
      access_i.address[31:OffsetBits] == RegNearHotness[31:OffsetBits],
      access_i.address[31:OffsetBits] == RegHostHotness[31:OffsetBits]
  };
  assign known_o = selected != '0;
  assign rdata_o = near_q ? rdata[1] : rdata[0];

  always_ff @(posedge clk_i) if (access_i.valid) near_q <= selected[1];

  for (genvar i = 0; i < int'(Monitors); i++) begin : gen_monitor
    nkv_chmu #(
      .Sketch(1),
      .ClockKhz(ClockKhz),
      .MsiNumber(i)
    ) u_monitor (
      .clk_i,
      .rst_ni,
      .access_valid_i(valid[i]),
      .access_i      (access[i]),
      .req_i         (access_i.valid && selected[i]),
      .we_i          (access_i.write),
      .addr_i        (16'(access_i.address[OffsetBits-1:0])),
      .strobes_i     ('1),
      .wdata_i       (access_i.data),
      .rdata_o       (rdata[i]),
      .interrupt_o   (interrupt_o[i])
    );
  end

endmodule
