// DevLoad of a slice, by CXL's four levels, from how many accesses are in flight: light, and from
// `optimal` on optimal, from `overload` on a moderate overload. It is severe when the host's own
// accesses reach `overload`, or have no credit left for reads or for writes, so that the host waits at the
// port: near-data alone, which gives way, does not make it so. One cycle.

module nkv_dev_load
  import nkv_inline_pkg::*;
(
  input  logic      clk_i,
  input  logic      rst_ni,
  input  depth_t    optimal_i,
  input  depth_t    overload_i,

  input  depth_t    host_reads_i,    // In flight.
  input  depth_t    host_writes_i,
  input  depth_t    near_reads_i,
  input  depth_t    near_writes_i,
  output dev_load_e load_o
);

  wire depth_t host = host_reads_i + host_writes_i;
  wire depth_t engine = near_reads_i + near_writes_i;
  depth_t host_q, all_q;
  logic   host_waits_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      host_q <= '0;
      all_q <= '0;
      host_waits_q <= 1'b0;
    end else begin
      host_q <= host;
      all_q <= host + engine;
      host_waits_q <= host_reads_i == depth_t'(HostCredits) ||
          host_writes_i == depth_t'(HostCredits);
    end
  end

  always_comb begin
    load_o = LoadLight;
    if (all_q >= optimal_i) load_o = LoadOptimal;
    if (all_q >= overload_i) load_o = LoadModerate;
    if (host_q >= overload_i || host_waits_q) load_o = LoadSevere;
  end

endmodule
