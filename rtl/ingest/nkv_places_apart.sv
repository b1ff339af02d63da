// Whether places keep apart. They are put one by one; where each lies behind the one before it, that is known at
// once. Else they are sorted between two memories, runs of twice the length in each pass, and neighbours are
// compared as they move: 2 cycles for each place and pass, 4 for each two runs, 2 n log2 n + 4 n for n places.
// Places that keep apart can be looked up in their order.

module nkv_places_apart #(
  parameter int unsigned Places = 16384,     // A power of two.
  parameter int unsigned PlaceBits = 32,
  parameter int unsigned ExtentBits = PlaceBits,
  parameter bit OneExtent = 1'b1,            // Of all places, so that it is not kept with each.
  localparam int unsigned IndexBits = $clog2(Places)
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  logic                 clear_i,      // Before each set of places.

  input  logic [ExtentBits-1:0] extent_i,    // Of the place that is put, at least 1; with OneExtent held.
  input  logic                 put_i,        // Up to Places times.
  input  logic [PlaceBits-1:0] place_i,
  input  logic                 judge_i,      // After the last one; held until done_o.
  output logic                 done_o,       // For one cycle.
  output logic                 apart_o,      // With it.

  input  logic [IndexBits-1:0] look_i,       // After that: the place of this rank
  output logic [PlaceBits-1:0] place_o,      // follows by one cycle.
  output logic [ExtentBits-1:0] extent_o
);

  // A place, and above it its extent if each has its own.
  typedef logic [(OneExtent ? PlaceBits : PlaceBits+ExtentBits)-1:0] entry_t;
  typedef logic [PlaceBits-1:0] place_t;
  typedef logic [ExtentBits-1:0] extent_t;
  typedef logic signed [PlaceBits:0] gap_t;
  typedef logic [IndexBits-1:0] index_t;
  typedef logic [IndexBits+1:0] count_t;     // Runs may end beyond the last place.

  typedef enum logic [2:0] {
    StPut,
    StPair,     // Two runs,
    StFirst,    // the first place of each,
    StSecond,
    StCompare,  // and the lower one of their heads
    StMove      // goes to the other memory.
  } state_e;

  state_e state_q;
  count_t count_q;
  logic   close_q;                      // Two neighbours are out of order, or meet.

  // ---- Runs ----
  count_t width_q;
  count_t a_q, b_q, a_end_q, b_end_q;   // Their next places, and where they end.
  count_t out_q;
  logic   from_q;                       // The memory that they lie in.
  logic   starts_q;                     // The merged run has no place yet.
  logic   b_read_q;                     // What was read last is of B.
  logic   a_wins_q;
  entry_t kept_q;                       // The other run's head.
  entry_t read;

  wire a_over = a_q == a_end_q || a_q >= count_q;
  wire b_over = b_q == b_end_q || b_q >= count_q;
  wire entry_t a_head = b_read_q ? kept_q : read;
  wire entry_t b_head = b_read_q ? read : kept_q;
  wire entry_t winner = a_wins_q ? a_head : b_head;
  wire merged = a_over && b_over;
  wire pass_over = merged && out_q == count_q;
  wire moves = state_q == StMove;

  // ---- Two memories ----
  index_t read_index;
  always_comb begin
    unique case (state_q)
      StPut: read_index = look_i;
      StSecond: read_index = index_t'(b_q);
      StMove: read_index = index_t'(a_wins_q ? a_q : b_q) + 1'b1;
      default: read_index = index_t'(a_q);
    endcase
  end

  logic   reads, writes;
  entry_t moved;
  entry_t read_q[2];
  logic   read_from_q;
  assign reads = state_q inside {StPut, StFirst, StSecond, StMove};
  assign writes = moves || put_i;
  assign moved = moves ? winner : entry_t'({extent_i, place_i});
  assign read = read_q[read_from_q];
  assign place_o = place_t'(read);
  assign extent_o = OneExtent ? extent_i : extent_t'(read >> PlaceBits);

  for (genvar m = 0; m < 2; m++) begin : gen_memory
    (* ram_style = "block" *) entry_t places[Places];
    always_ff @(posedge clk_i) begin
      if (reads) read_q[m] <= places[read_index];
      if (writes && from_q != 1'(m)) places[index_t'(out_q)] <= moved;
    end
  end

  // ---- Neighbours ----
  gap_t    gap_q;
  extent_t gap_extent_q;                // Of its lower place.
  logic    gap_valid_q;
  entry_t  last_q;
  wire     too_close = gap_valid_q && gap_q < gap_t'({1'b0, gap_extent_q});
  wire    meets = close_q || too_close;  // Of places that are sorted.

  always_ff @(posedge clk_i) begin
    if (writes) begin
      gap_q <= gap_t'({1'b0, place_t'(moved)}) - gap_t'({1'b0, place_t'(last_q)});
      gap_extent_q <= OneExtent ? extent_i : extent_t'(last_q >> PlaceBits);
      last_q <= moved;
    end
    if (reads) read_from_q <= from_q;
    if (state_q == StSecond || (moves && a_wins_q == b_read_q)) kept_q <= read;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {state_q, count_q, close_q, width_q, a_q, b_q, a_end_q, b_end_q, out_q} <= '0;
      {from_q, starts_q, b_read_q, a_wins_q, gap_valid_q, done_o, apart_o} <= '0;
    end else if (clear_i) begin
      state_q <= StPut;
      {count_q, out_q} <= '0;
      {close_q, gap_valid_q, done_o} <= '0;
      starts_q <= 1'b1;
      from_q <= 1'b1;
    end else begin
      done_o <= 1'b0;
      gap_valid_q <= writes && !starts_q;
      if (too_close) close_q <= 1'b1;
      if (writes) begin
        out_q <= out_q + 1'b1;
        starts_q <= 1'b0;
      end
      unique case (state_q)
        StPut: begin
          if (put_i) count_q <= count_q + 1'b1;
          if (judge_i && !put_i && !gap_valid_q && !done_o) begin
            width_q <= count_t'(1);
            out_q <= '0;
            from_q <= 1'b0;
            close_q <= 1'b0;
            if (close_q) state_q <= StPair;
            else {done_o, apart_o} <= 2'b11;
          end
        end
        StPair: begin
          a_q <= out_q;
          {a_end_q, b_q} <= {2{out_q + width_q}};
          b_end_q <= out_q + (width_q << 1);
          starts_q <= 1'b1;
          state_q <= StFirst;
        end
        StFirst: state_q <= StSecond;
        StSecond: begin
          b_read_q <= 1'b1;
          state_q <= StCompare;
        end
        StCompare: begin
          a_wins_q <= b_over || (!a_over && place_t'(a_head) <= place_t'(b_head));
          state_q <= StMove;
          if (merged) state_q <= StPair;
          if (pass_over) begin
            width_q <= width_q << 1;
            out_q <= '0;
            from_q <= !from_q;
          end
          if (meets || (pass_over && width_q << 1 >= count_q)) begin
            state_q <= StPut;
            done_o <= 1'b1;
            apart_o <= !meets;
          end
        end
        default: begin
          if (a_wins_q) a_q <= a_q + 1'b1;
          else b_q <= b_q + 1'b1;
          b_read_q <= !a_wins_q;
          state_q <= StCompare;
        end
      endcase
    end
  end

endmodule
