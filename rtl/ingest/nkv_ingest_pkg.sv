// What passes between the modules that build a page. Most of it is about the digest: ARITHMETIC.md
// section 2.1.
//
// A channel's cells are m * 2^s wide. With E the largest exponent of the channel, no s outside
// E - 140 .. E - 136 can be the smallest that fits (nkv_digest_step says why), so that exponents of
// steps travel as s + 140, from 1 on, and of a key only its bits from 2^(E - 140) on matter.

package nkv_ingest_pkg;

  import nkv_pkg::*;
  import nkv_abi_pkg::*;
  import nkv_exact_pkg::*;

  // A package offers more than any one of its users needs.
  // verilator lint_off UNUSEDPARAM

  // Significant bits of a stored element; the binary32 significand's others are zero.
  localparam int unsigned ElementBits = 11;
  localparam int unsigned MagnitudeBits = ElementBits + 3;
  localparam int unsigned StepOffset = 140;
  localparam int unsigned StepBits = 10;
  localparam int unsigned LargestDelta = 31;
  localparam int unsigned LargestCode = 255;
  localparam int unsigned IndexBits = 12;

  // s + StepOffset.
  typedef logic signed [StepBits-1:0] step_t;
  // m - 8.
  typedef logic [2:0] multiplier_t;
  // A key, or its ones' complement where it is negative.
  typedef logic [MagnitudeBits-1:0] magnitude_t;
  // idx of section 2.1.
  typedef logic signed [IndexBits-1:0] cell_index_t;

  // A key in the order of its values, as an unsigned number.
  localparam int unsigned OrderBits = 1 + ExponentBits + ElementBits - 1;
  typedef logic [OrderBits-1:0] order_t;

  // Zero, whatever its sign, has exponent 0.
  typedef struct packed {
    logic                   negative;
    exponent_t              exponent;
    logic [ElementBits-2:0] fraction;
  } key_number_t;

  typedef struct packed {
    logic        exists;
    multiplier_t multiplier;
    step_t       step;
  } cells_t;

  // An element of a source row as it came, in the low bits.
  typedef logic [15:0] element_t;
  // A tensor of a page is PageTokens rows of up to RowWords words.
  localparam int unsigned TokenBits = $clog2(PageTokens);
  typedef logic [TokenBits-1:0] token_t;
  // Rows of elements are counted in granules where they are stored.
  localparam int unsigned GranuleBytes = 8;
  localparam int unsigned BurstGranules = BurstBytes / GranuleBytes;
  typedef logic [8*GranuleBytes-1:0] granule_t;
  typedef logic [$clog2(BurstGranules+1)-1:0] granule_count_t;

  // A page that someone else than an APPEND builds here, of rows that it keeps: what `command` says but
  // for its page list. Rows are asked for where the command says that they lie, without key scales.
  typedef struct packed {
    logic            active;         // Held, with the command, from load to done.
    append_command_t command;        // One page; its rows lie at multiples of 64.
    logic [15:0]     tenant;
    logic [63:0]     address;        // Where the page goes,
    logic [15:0]     generation;
    logic            load;           // Before each start.
    logic            start;
    logic            drain;          // After an overflow, until rows_idle.
    logic            request_ready;
    logic            beat_valid;
    read_beat_t      beat;
    logic            scale_valid;    // All of a page's come before its last key row.
    token_t          scale_row;
    logic [31:0]     scale;
  } guest_page_t;

  typedef struct packed {
    logic [31:0]   total_bytes;      // Of the page; from the cycle after load on.
    logic          done;             // For one cycle, and
    logic          overflow;         // in place of it: DELTA4 does not hold its rows.
    logic [7:0]    k_exponent;       // With done.
    logic [7:0]    v_exponent;
    logic          rows_idle;
    logic          request_valid;
    read_request_t request;
    logic          beat_ready;
  } guest_report_t;

  // verilator lint_on UNUSEDPARAM

  // Bytes of a source row, without and with what follows the elements.
  function automatic logic [31:0] source_row_bytes(dtype_e dtype, logic [15:0] dim, logic scaled);
    return 32'(dim) * element_bytes(dtype) + (scaled ? 32'd4 : 32'd0);
  endfunction

  // Bytes from the first byte of `tokens` source rows to the last.
  function automatic logic [63:0] source_span(logic [31:0] tokens, logic [31:0] stride,
                                              logic [31:0] row);
    return (64'(tokens) - 64'd1) * 64'(stride) + 64'(row);
  endfunction

  function automatic order_t order_of(key_number_t key);
    order_t order = {1'b1, key.exponent, key.fraction};
    return key.negative ? ~order : order;
  endfunction

  function automatic key_number_t key_of(order_t order);
    return order[OrderBits-1] ? {1'b0, order[OrderBits-2:0]} : {1'b1, ~order[OrderBits-2:0]};
  endfunction

  // Eight times the element's significand; less 1 where it is negative, so that the complement of
  // what is left after a shift to the right, or a division, is the negative number's floor.
  function automatic magnitude_t magnitude_of(key_number_t key);
    magnitude_t significand = {key.exponent != '0, key.fraction, 3'd0};
    return significand - magnitude_t'(key.negative);
  endfunction

  // floor(magnitude / m) is the product with this one, less its last ReciprocalShift bits: it is
  // less than m above 2^18 / m, which magnitudes below 2^14 do not multiply to as much as a unit.
  localparam int unsigned ReciprocalShift = 18;
  localparam int unsigned ReciprocalBits = 16;
  localparam int unsigned QuotientBits = MagnitudeBits + ReciprocalBits;
  typedef logic [ReciprocalBits-1:0] reciprocal_t;
  typedef logic [QuotientBits-1:0] quotient_t;

  function automatic reciprocal_t reciprocal_of(multiplier_t multiplier);
    unique case (multiplier)
      3'd0: return 16'd32768;
      3'd1: return 16'd29128;
      3'd2: return 16'd26215;
      3'd3: return 16'd23832;
      3'd4: return 16'd21846;
      3'd5: return 16'd20165;
      3'd6: return 16'd18725;
      default: return 16'd17477;
    endcase
  endfunction

  function automatic cell_index_t index_of(logic negative, quotient_t quotient);
    cell_index_t index = cell_index_t'(quotient >> ReciprocalShift);
    return negative ? ~index : index;
  endfunction

endpackage
