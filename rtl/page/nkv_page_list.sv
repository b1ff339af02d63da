// The part of a command's page list that is on chip: up to ListPages entries, read from memory once,
// so that nothing that the host writes there later has an effect. Knows the largest exponents of
// the entries that it holds (ARITHMETIC.md 1.2 and 1.3).
//
// Entries start anywhere at a multiple of 8 bytes: entry i lies in bank (i + skip) % 8 of a memory of
// bursts. A look-up answers in the next cycle. The largest of each burst's exponents is found in steps, so
// that the list counts as loaded four cycles after its last burst.

`include "nkv_assert.svh"

module nkv_page_list
  import nkv_abi_pkg::*;
  import nkv_pkg::*;
(
  input  logic          clk_i,
  input  logic          rst_ni,

  input  logic          load_i,          // Begins a list of `entries_i` entries.
  input  logic [63:0]   address_i,       // Offset into the window.
  input  logic [PageIndexBits:0] entries_i,
  output logic          loaded_o,        // All entries have come.
  output logic          poisoned_o,      // Some came with poison.

  output logic          request_valid_o,
  input  logic          request_ready_i,
  output read_request_t request_o,
  input  logic          beat_valid_i,    // Beats for SinkList; always taken.
  input  read_beat_t    beat_i,

  input  page_index_t   page_i,
  output page_entry_t   entry_o,         // Of `page_i` in the cycle before.
  output logic [7:0]    k_exponent_o,
  output logic [7:0]    v_exponent_o
);

  localparam int unsigned EntriesPerBurst = BurstBytes / PageEntryBytes;
  localparam int unsigned Bursts = ListPages / EntriesPerBurst + 1;
  localparam int unsigned BurstIndexBits = $clog2(Bursts);

  (* ram_style = "block" *) burst_t memory[Bursts];

  logic                   asks_q, loading_q, poisoned_q;
  logic [63:0]            address_q;
  logic [2:0]             skip_q;
  logic [BurstIndexBits-1:0] burst_q;
  logic [3:0]             step_q;        // Of the bursts whose exponents are compared.

  // One burst more than ListPages / 8 holds the last entries of a list that begins inside a burst.
  logic [PageIndexBits+1:0] places_q;  // Of the entries, and those before them.
  wire [PageIndexBits+1:0] bursts = (places_q + (PageIndexBits + 2)'(EntriesPerBurst - 1)) >>
      $clog2(EntriesPerBurst);

  assign request_valid_o = asks_q;
  assign request_o = '{
      tag: '{sink: SinkList, last_bytes: 7'(BurstBytes), default: '0},
      bursts: burst_count_t'(bursts),
      address: address_q
  };
  assign loaded_o = !asks_q && !loading_q && step_q == '0;
  assign poisoned_o = poisoned_q;

  // ---- Largest exponents of a burst's entries: of these, of each two, four, all ----
  typedef struct packed {
    logic [7:0] k;
    logic [7:0] v;
  } exponents_t;

  function automatic exponents_t larger(exponents_t a, exponents_t b);
    return '{k: a.k > b.k ? a.k : b.k, v: a.v > b.v ? a.v : b.v};
  endfunction

  exponents_t of_one[EntriesPerBurst], of_one_q[EntriesPerBurst];
  exponents_t of_two_q[EntriesPerBurst/2], of_four_q[EntriesPerBurst/4], of_all_q, largest_q;
  wire is_first = burst_q == '0;
  wire is_last = (PageIndexBits + 2 - 3)'(burst_q) == places_q[PageIndexBits+1:3];
  assign {k_exponent_o, v_exponent_o} = largest_q;

  always_comb begin
    for (int unsigned i = 0; i < EntriesPerBurst; i++) begin
      // Of an entry only the exponents count here.
      // verilator lint_off UNUSEDSIGNAL
      automatic page_entry_t entry = page_entry_t'(beat_i.data[64*i+:64]);
      // verilator lint_on UNUSEDSIGNAL
      of_one[i] = '{k: entry.k_exponent, v: entry.v_exponent};
      if ((is_first && 3'(i) < skip_q) || (is_last && 3'(i) >= places_q[2:0])) of_one[i] = '0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (beat_valid_i) of_one_q <= of_one;
    if (step_q[0]) begin
      for (int unsigned i = 0; i < EntriesPerBurst / 2; i++) begin
        of_two_q[i] <= larger(of_one_q[2*i], of_one_q[2*i+1]);
      end
    end
    if (step_q[1]) begin
      for (int unsigned i = 0; i < EntriesPerBurst / 4; i++) begin
        of_four_q[i] <= larger(of_two_q[2*i], of_two_q[2*i+1]);
      end
    end
    if (step_q[2]) of_all_q <= larger(of_four_q[0], of_four_q[1]);
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      asks_q <= 1'b0;
      loading_q <= 1'b0;
      poisoned_q <= 1'b0;
      address_q <= '0;
      skip_q <= '0;
      places_q <= '0;
      burst_q <= '0;
      step_q <= '0;
      largest_q <= '0;
    end else if (load_i) begin
      asks_q <= entries_i != '0;
      loading_q <= entries_i != '0;
      poisoned_q <= 1'b0;
      address_q <= address_i;
      skip_q <= address_i[5:3];
      places_q <= (PageIndexBits + 2)'(entries_i) + (PageIndexBits + 2)'(address_i[5:3]);
      burst_q <= '0;
      step_q <= '0;
      largest_q <= '0;
    end else begin
      step_q <= {step_q[2:0], beat_valid_i};
      if (step_q[3]) largest_q <= larger(largest_q, of_all_q);
      if (request_valid_o && request_ready_i) asks_q <= 1'b0;
      if (beat_valid_i) begin
        burst_q <= burst_q + 1'b1;
        poisoned_q <= poisoned_q || beat_i.poison;
        if (beat_i.last) loading_q <= 1'b0;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (beat_valid_i) memory[burst_q] <= beat_i.data;
  end

  // ---- Look-up ----
  wire [PageIndexBits:0] place = {1'b0, page_i} + (PageIndexBits + 1)'(skip_q);
  burst_t     row_q;
  logic [2:0] column_q;
  always_ff @(posedge clk_i) begin
    row_q <= memory[BurstIndexBits'(place >> 3)];
    column_q <= place[2:0];
  end
  assign entry_o = page_entry_t'(row_q[64*column_q+:64]);

  wire unused_beat = ^{beat_i.fault, beat_i.first, beat_i.tag};

  `NKV_ASSERT_STAYS(RequestStays_A, request_valid_o, request_ready_i, request_o)

endmodule
