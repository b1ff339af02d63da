// What a decoder of an LZ format has written, as far back as a match can reach, and copies from it.
// A chunk is up to 16 bytes that are appended: given ones, or those that stand offset_i before the
// place where they go, repeated where the offset is shorter than the chunk. One chunk per cycle, of
// any offset: what is under way is taken from where it is.
// A full burst of 64 bytes goes out as soon as it is complete. While it cannot, stall_o stands: no
// chunk is taken then. flush_i sends what is left, when busy_o has fallen.
// Two cycles from chunk to memory; 16 memories of a byte, 4,096 deep.

module nkv_lz_history (
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         begin_i,        // Forgets all; output that waits is dropped.
  input  logic         cancel_i,       // The chunk of the last cycle was none.

  input  logic         chunk_valid_i,
  output logic         stall_o,
  input  logic [4:0]   chunk_count_i,  // 1..16; of a match at most stride_of(offset).
  input  logic         chunk_is_match_i,
  input  logic [7:0]   chunk_bytes_i[16],
  input  logic [15:0]  chunk_offset_i, // 1..65535
  output logic         busy_o,

  input  logic         flush_i,
  output logic         out_valid_o,
  input  logic         out_ready_i,
  output logic [511:0] out_data_o
);

  localparam int unsigned LineBits = 12;
  typedef logic [LineBits-1:0] line_t;
  typedef logic [3:0] bank_t;

  logic pending_q, pending_half_q;   // A burst is complete in this half of the recent lines.
  logic [6:0] limit_q;               // So many of its bytes are there; the others go out as zero.
  logic out_valid_q;
  wire moves_out = pending_q && (!out_valid_q || out_ready_i);
  wire goes = !pending_q || moves_out;
  assign stall_o = !goes;

  // ---- First cycle: addresses, and which source byte goes where -------------------------------
  logic [15:0] place_q;              // Where the next chunk goes.
  wire [15:0] source = place_q - chunk_offset_i;
  wire is_short = chunk_offset_i[15:4] == '0;

  logic valid_q, is_match_q;
  logic is_near_q;                   // The source may still be on its way to memory.
  logic [4:0] count_q;
  logic [15:0] chunk_place_q;
  logic [7:0] given_q[16];
  logic [2:0] wanted_q[16];          // The line of each bank that is read, modulo 8.
  logic [15:0] is_leaving_q;         // That byte is part of the chunk before, a cycle ahead.
  bank_t select_q[16];               // By bank that is written: the source byte.

  // Where the chunk that is a cycle ahead goes.
  logic [15:0] enable;
  line_t target[16];
  logic [2:0] wanted[16];
  always_comb begin
    for (int unsigned b = 0; b < 16; ++b) begin
      enable[b] = {1'b0, 4'(b) - chunk_place_q[3:0]} < count_q;
      target[b] = chunk_place_q[15:4] + line_t'({1'b0, chunk_place_q[3:0]} > 5'(b));
      wanted[b] = source[6:4] + 3'({1'b0, source[3:0]} > 5'(b));
    end
  end

  always_ff @(posedge clk_i) begin
    if (goes && chunk_valid_i) begin
      is_match_q <= chunk_is_match_i;
      is_near_q <= chunk_offset_i[15:6] == '0;
      count_q <= chunk_count_i;
      chunk_place_q <= place_q;
      for (int unsigned b = 0; b < 16; ++b) begin
        wanted_q[b] <= wanted[b];
        is_leaving_q[b] <= valid_q && enable[b] && target[b][2:0] == wanted[b];
        if (!chunk_is_match_i) begin
          given_q[b] <= chunk_bytes_i[b];
          select_q[b] <= 4'(b) - place_q[3:0];
        end else if (is_short) begin
          select_q[b] <= source[3:0] + (4'(b) - place_q[3:0]) % chunk_offset_i[3:0];
        end else begin
          select_q[b] <= source[3:0] + (4'(b) - place_q[3:0]);
        end
      end
    end
  end

  // ---- Second cycle: source bytes from wherever they are, put in place ------------------------
  logic [7:0] recent_q[8][16];       // The lines that were written last, by line modulo 8.
  logic [7:0] fetched[16];
  logic write_valid_q;
  logic [15:0] write_enable_q;
  logic [7:0] write_bytes_q[16];
  logic [6:0] write_place_q;         // Within two bursts.
  logic [4:0] write_count_q;
  line_t write_line_q[16];

  logic [7:0] byte_of[16];
  always_comb begin
    for (int unsigned b = 0; b < 16; ++b) begin
      if (!is_match_q) byte_of[b] = given_q[b];
      else if (!is_near_q) byte_of[b] = fetched[b];
      else byte_of[b] = is_leaving_q[b] ? write_bytes_q[b] : recent_q[wanted_q[b]][b];
    end
  end

  always_ff @(posedge clk_i) begin
    if (goes && valid_q) begin
      write_place_q <= chunk_place_q[6:0];
      write_count_q <= count_q;
      for (int unsigned b = 0; b < 16; ++b) begin
        write_enable_q[b] <= enable[b];
        write_line_q[b] <= target[b];
        write_bytes_q[b] <= byte_of[select_q[b]];
      end
    end
  end

  // ---- Third cycle: written -------------------------------------------------------------------
  wire writes = goes && write_valid_q;
  for (genvar b = 0; b < 16; ++b) begin : gen_bank
    (* ram_style = "block" *) logic [7:0] memory[2**LineBits];
    logic [7:0] memory_q;
    wire line_t source_line = source[15:4] + line_t'({1'b0, source[3:0]} > 5'(b));
    wire line_t target_line = write_line_q[b];
    wire [7:0] target_byte = write_bytes_q[b];
    assign fetched[b] = memory_q;
    always_ff @(posedge clk_i) begin
      if (goes && chunk_valid_i && chunk_is_match_i) memory_q <= memory[source_line];
      if (writes && write_enable_q[b]) memory[target_line] <= target_byte;
    end
  end

  always_ff @(posedge clk_i) begin
    if (writes) begin
      for (int unsigned b = 0; b < 16; ++b) begin
        if (write_enable_q[b]) recent_q[write_line_q[b][2:0]][b] <= write_bytes_q[b];
      end
    end
  end

  wire [6:0] reached = {1'b0, write_place_q[5:0]} + {2'b0, write_count_q};
  assign busy_o = (valid_q && !cancel_i) || write_valid_q || pending_q || out_valid_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_q <= 1'b0;
      write_valid_q <= 1'b0;
      pending_q <= 1'b0;
      pending_half_q <= 1'b0;
      limit_q <= '0;
      out_valid_q <= 1'b0;
      place_q <= '0;
    end else if (begin_i) begin
      valid_q <= 1'b0;
      write_valid_q <= 1'b0;
      pending_q <= 1'b0;
      out_valid_q <= 1'b0;
      place_q <= '0;
    end else begin
      if (goes) begin
        valid_q <= chunk_valid_i;
        write_valid_q <= valid_q && !cancel_i;
        if (chunk_valid_i) place_q <= place_q + 16'(chunk_count_i);
      end
      if (flush_i) begin
        pending_q <= 1'b1;
        pending_half_q <= write_place_q[6] ^ reached[6];
        limit_q <= {1'b0, reached[5:0]};
      end else if (writes && reached[6]) begin
        pending_q <= 1'b1;
        pending_half_q <= write_place_q[6];
        limit_q <= 7'd64;
      end else if (moves_out) begin
        pending_q <= 1'b0;
      end
      if (moves_out) out_valid_q <= 1'b1;
      else if (out_ready_i) out_valid_q <= 1'b0;
    end
  end

  assign out_valid_o = out_valid_q;
  always_ff @(posedge clk_i) begin
    if (moves_out) begin
      for (int unsigned i = 0; i < 64; ++i) begin
        out_data_o[8*i+:8] <=
            7'(i) < limit_q ? recent_q[{pending_half_q, 2'(i / 16)}][i%16] : 8'd0;
      end
    end
  end

endmodule
