// What nkv_window_guard promises for every window that lies in the address space: a range of bursts is
// let through exactly if it lies in the window, whole bursts counted; none of its bursts, burst_i
// stands for all, then begins or ends outside; and what is refused gives the window's base alone.
// All in numbers wide enough that nothing wraps.

module nkv_window_guard_proof
  import nkv_pkg::*;
(
  input logic [63:0] base_i,
  input logic [63:0] bytes_i,
  input logic [63:0] offset_i,
  input logic [25:0] bursts_i,
  input logic [25:0] burst_i
);

  typedef logic [69:0] wide_t;

  logic lets;
  address_t address;

  nkv_window_guard u_dut (
    .domain_i('{
        tenant: '0,
        window_bytes: address_t'(bytes_i),
        window_base: address_t'(base_i)
    }),
    .offset_i,
    .bursts_i,
    .inside_o(lets),
    .address_o(address)
  );

  // The window ends with the burst that holds its last byte.
  wire wide_t window = {wide_t'(bytes_i[51:0]) + 70'd63} & ~wide_t'(63);
  wire wide_t base = wide_t'(base_i);
  wire wide_t first = wide_t'({offset_i[63:6], 6'd0});
  wire wide_t length = wide_t'({bursts_i, 6'd0});
  wire wide_t chosen = wide_t'(address) + wide_t'({burst_i, 6'd0});

  always_comb begin
    assume (base_i[63:52] == '0 && base_i[5:0] == '0 && bytes_i[63:52] == '0);
    assume (base + window <= (wide_t'(1) << AddressBits));
    assume (bursts_i != '0);
    a_inside_exactly : assert (lets == (first + length <= window));
    if (!lets) a_refused_gives_the_base : assert (wide_t'(address) == base);
    if (lets) a_begins_at_its_offset : assert (wide_t'(address) == base + first);
    if (lets && burst_i < bursts_i) begin
      a_no_burst_before : assert (chosen >= base);
      a_no_burst_beyond : assert (chosen + 70'd64 <= base + window);
    end
  end

endmodule
