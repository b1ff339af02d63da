// Finds the matches of an LZ4 block in plain bytes, greedily: where the four bytes at a place stood
// before, as its table of the last place of each hash remembers, it takes as many as are alike.
//
// Two places are looked up per cycle, and remembered, until one matches; the more miss in a row,
// the more are passed over, up to 14 of 16. A match then takes some 6 cycles and two per 16 bytes
// of it, or one per 16 bytes and 12 if it is longer than some 48. Sequences leave in order, the
// last one without a match.
//
// The table is not cleared: what it remembers of earlier blocks is taken for a match only if it is
// one here. So which matches are found, not whether they are, depends on earlier blocks.

module nkv_lz4_find #(
  parameter int unsigned HashBits = 13
) (
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        begin_i,
  input  logic [16:0] first_i,             // Places of the first byte and behind the last one,
  input  logic [16:0] end_i,               // held.

  // Two readers of nkv_plain_memory.
  output logic [15:0] place_o[2],
  output logic        uses_second_o,
  input  logic [7:0]  read_i[2][16],

  output logic        valid_o,
  input  logic        ready_i,
  output logic        is_last_o,
  output logic [16:0] place_of_literals_o,
  output logic [16:0] literals_o,
  output logic [16:0] match_bytes_o,       // At least 4, unless is_last_o.
  output logic [15:0] offset_o
);

  localparam int unsigned TagBits = 32 - HashBits;
  // Of the format: the last match begins so far from the end, and so many literals follow it.
  localparam logic [16:0] MatchLimit = 17'd12;
  localparam logic [16:0] LastLiterals = 17'd5;
  typedef struct packed {
    logic [TagBits-1:0] tag;
    logic [15:0] place;
  } entry_t;

  typedef enum logic [2:0] {Idle, Seek, Scan, Compare, Give, Skip, GiveLast} state_e;
  state_e state_q;
  logic [16:0] place_q;            // Of the bytes in the window.
  logic [16:0] anchor_q;           // Where the literals begin.
  logic [16:0] target_q;           // Where the search goes on behind a match, and how far that is:
  logic [16:0] distance_q;
  logic is_far_q;                  // behind the bytes at hand, or before them.
  logic [7:0] misses_q;
  logic [16:0] last_start_q;       // Of a match, and where it ends at the latest.
  logic [16:0] last_end_q;
  logic is_short_q;                // No match fits.

  // ---- Bytes at the place ----------------------------------------------------------------------
  logic wants_line, line_valid, line_ready;
  logic [13:0] line_index;
  wire unused_line = ^line_index[13:12];   // Lines are those of 64 KiB.
  logic [127:0] line, read_line;
  always_comb begin
    for (int unsigned i = 0; i < 16; ++i) read_line[8*i+:8] = read_i[0][i];
  end
  wire seeks = state_q == Seek;
  wire compares = state_q == Compare;
  nkv_word_reader #(.Width(128), .Downwards(0)) u_lines (
    .clk_i, .rst_ni, .begin_i(seeks), .place_i({1'b0, place_q}),
    .request_o(wants_line), .request_line_o(line_index), .grant_i(wants_line && !compares),
    .line_i(read_line),
    .valid_o(line_valid), .ready_i(line_ready), .word_o(line)
  );
  logic [7:0] bytes[16];
  logic [4:0] there, take;
  nkv_byte_window u_window (
    .clk_i, .rst_ni, .begin_i(seeks), .skip_i(place_q[3:0]),
    .in_valid_i(line_valid), .in_ready_o(line_ready), .in_data_i(line),
    .bytes_o(bytes), .count_o(there), .take_i(take)
  );

  // ---- Two places are looked up ----------------------------------------------------------------
  // Hash and tag together are the four bytes.
  function automatic logic [HashBits-1:0] hash_of(logic [31:0] key);
    return key[HashBits-1:0] ^
           HashBits'({key[31:HashBits] * TagBits'(32'h9e375)} >> (TagBits - HashBits));
  endfunction

  wire is_past_end = is_short_q || place_q > last_start_q;
  wire looks = state_q == Scan && !is_past_end &&
               (there == 5'd16 || (there >= 5'd5 && misses_q[7:5] == '0));
  wire [4:0] step = {misses_q[7:5], 1'b0} + 5'd2;
  wire skips = state_q == Skip || (state_q == Give && ready_i && !is_far_q);
  wire [4:0] skipped = distance_q < 17'd16 ? distance_q[4:0] : 5'd16;
  always_comb begin
    take = '0;
    if (looks) take = step;
    else if (skips) take = skipped < there ? skipped : there;
  end
  wire arrives = distance_q == 17'(take);

  logic [31:0] key[2];
  logic [HashBits-1:0] hash[2];
  always_comb begin
    for (int unsigned k = 0; k < 2; ++k) begin
      key[k] = {bytes[k+3], bytes[k+2], bytes[k+1], bytes[k]};
      hash[k] = hash_of(key[k]);
    end
  end
  // Ports of a memory do not meet at an address.
  wire has_both = hash[0] != hash[1] && place_q != last_start_q;

  entry_t entry_q[2];
  (* ram_style = "block" *) entry_t table_memory[2**HashBits];
  always_ff @(posedge clk_i) begin
    if (looks) begin
      entry_q[0] <= table_memory[hash[0]];
      table_memory[hash[0]] <= '{key[0][31:HashBits], place_q[15:0]};
    end
    if (looks && has_both) begin
      entry_q[1] <= table_memory[hash[1]];
      table_memory[hash[1]] <= '{key[1][31:HashBits], place_q[15:0] + 16'd1};
    end
  end

  logic looked_q, looked_both_q;
  logic [16:0] looked_place_q;
  logic [TagBits-1:0] tag_q[2];
  logic [1:0] is_hit;
  always_comb begin
    for (int unsigned k = 0; k < 2; ++k) begin
      is_hit[k] = looked_q && (k == 0 || looked_both_q) && entry_q[k].tag == tag_q[k] &&
                  {1'b0, entry_q[k].place} >= first_i &&
                  {1'b0, entry_q[k].place} < looked_place_q + 17'(k);
    end
  end
  always_ff @(posedge clk_i) begin
    if (looks) begin
      looked_place_q <= place_q;
      for (int unsigned k = 0; k < 2; ++k) tag_q[k] <= key[k][31:HashBits];
    end
  end

  wire hits = is_hit != '0;
  logic is_begun_q;                        // The first cycle of comparing.
  logic [16:0] match_place_q, source_q;    // As far as they are compared, from then on.

  // ---- As many as are alike --------------------------------------------------------------------
  logic [2:0] comparing_q;                 // Read one, two cycles ago; counted.
  logic [4:0] alike_q;
  logic [16:0] match_bytes_q, room_q, start_q;
  logic [15:0] offset_q;
  logic [4:0] alike;
  always_comb begin
    alike = 5'd16;
    for (int i = 15; i >= 0; --i) if (read_i[0][i] != read_i[1][i]) alike = 5'(i);
  end
  wire [16:0] longer = match_bytes_q + 17'(alike_q);
  wire is_full = longer >= room_q;
  wire is_over = comparing_q[2] && (alike_q != 5'd16 || is_full);
  wire [16:0] whole = is_full ? room_q : longer;
  wire is_match = whole >= 17'd4;
  wire [16:0] target = start_q + (is_match ? whole : 17'd1);
  wire [16:0] distance = target - place_q;

  assign place_o[0] = compares ? match_place_q[15:0] : {line_index[11:0], 4'd0};
  assign place_o[1] = source_q[15:0];
  assign uses_second_o = compares;

  assign valid_o = state_q == Give || state_q == GiveLast;
  assign is_last_o = state_q == GiveLast;
  assign place_of_literals_o = anchor_q;
  assign literals_o = (is_last_o ? end_i : start_q) - anchor_q;
  assign match_bytes_o = match_bytes_q;
  assign offset_o = offset_q;

  always_ff @(posedge clk_i) begin
    alike_q <= alike;
    if (!compares) begin
      match_bytes_q <= state_q == Give ? match_bytes_q : '0;
      if (hits) begin
        match_place_q <= is_hit[0] ? looked_place_q : looked_place_q + 17'd1;
        source_q <= {1'b0, is_hit[0] ? entry_q[0].place : entry_q[1].place};
      end
    end else begin
      match_place_q <= match_place_q + 17'd16;
      source_q <= source_q + 17'd16;
      if (!is_begun_q) begin
        start_q <= match_place_q;
        room_q <= last_end_q - match_place_q;
        offset_q <= 16'(match_place_q - source_q);
      end
      if (comparing_q[2]) match_bytes_q <= whole;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Idle;
      place_q <= '0;
      anchor_q <= '0;
      misses_q <= '0;
      last_start_q <= '0;
      last_end_q <= '0;
      is_short_q <= 1'b0;
      looked_q <= 1'b0;
      looked_both_q <= 1'b0;
      target_q <= '0;
      distance_q <= '0;
      is_far_q <= 1'b0;
      is_begun_q <= 1'b0;
      comparing_q <= '0;
    end else begin
      looked_q <= looks && !hits;
      looked_both_q <= has_both;
      is_begun_q <= compares;
      comparing_q <= compares ? {comparing_q[1:0], 1'b1} : '0;
      place_q <= place_q + 17'(take);
      distance_q <= distance_q - 17'(take);
      unique case (state_q)
        Idle: begin
          place_q <= first_i;
          anchor_q <= first_i;
          misses_q <= '0;
          last_start_q <= end_i - MatchLimit;
          last_end_q <= end_i - LastLiterals;
          is_short_q <= end_i - first_i < MatchLimit + 17'd1;
          if (begin_i) state_q <= Seek;
        end
        Seek: state_q <= Scan;
        Scan: begin
          if (looks && misses_q != '1) misses_q <= misses_q + 1'b1;
          if (hits) state_q <= Compare;
          else if (is_past_end && !looked_q) state_q <= GiveLast;
        end
        Compare: begin
          if (is_over) begin
            target_q <= target;
            distance_q <= distance;
            is_far_q <= distance > 17'd48;   // Or below zero.
            if (is_match) begin
              state_q <= Give;
            end else begin
              place_q <= target;
              state_q <= Seek;
            end
          end
        end
        Give: begin
          if (ready_i) begin
            anchor_q <= target_q;
            misses_q <= '0;
            if (is_far_q) place_q <= target_q;
            state_q <= is_far_q ? Seek : arrives ? Scan : Skip;
          end
        end
        Skip: if (arrives) state_q <= Scan;
        GiveLast: if (ready_i) state_q <= Idle;
        default: state_q <= Idle;
      endcase
    end
  end

endmodule
