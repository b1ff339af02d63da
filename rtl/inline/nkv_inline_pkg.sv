// AXI4 as it stands between the CXL IP, the slices of the inline path and the memory controllers.
// Every access is one burst of 64 bytes, as CXL.mem has them: AxLEN is 0, AxSIZE 6, xLAST 1, and
// what ties these to the IP's ports leaves them out here. Poison travels in `user`.

package nkv_inline_pkg;

  import nkv_abi_pkg::*;
  import nkv_pkg::*;

  // A package offers more than any one of its users needs.
  // verilator lint_off UNUSEDPARAM

  // What each side of a slice may have in flight.
  localparam int unsigned HostCredits = 64;       // Reads; as many writes.
  localparam int unsigned NearReadCredits = Outstanding;
  localparam int unsigned NearWriteCredits = 64;
  localparam int unsigned DepthBits = 10;         // Of all of them together.
  typedef logic [DepthBits-1:0] depth_t;

  // Near-data reads are cut into accesses: the ids of a read's beats count on from its own in so many
  // low bits, which its asker (nkv_reader) uses as the beats' places in its buffer.
  localparam int unsigned PlaceBits = 7;

  // With several ports of near-data, an id's bits from here on, modulo the ports, say whose it is. Each
  // port queues so many accesses before each slice.
  localparam int unsigned PortBit = AxiIdBits - 3;
  localparam int unsigned NearPortReads = 8;
  localparam int unsigned NearPortWrites = 4;

  // Reads, and addresses of writes.
  typedef struct packed {
    axi_id_t  id;
    address_t addr;
  } access_t;

  typedef struct packed {
    axi_id_t id;
    logic    error;    // resp is SLVERR or DECERR.
    logic    poison;   // user
    burst_t  data;
  } access_r_t;

  typedef struct packed {
    logic [BurstBytes-1:0] strb;
    logic                  poison;
    burst_t                data;
  } access_w_t;

  // Towards memory an id's highest bit says whose it is: the host's ids pass unchanged below a 0,
  // the engine's below a 1.
  typedef struct packed {
    logic    is_near;
    access_t access;
  } memory_access_t;

  typedef struct packed {
    logic      is_near;
    access_r_t answer;
  } memory_r_t;

  typedef struct packed {
    logic   is_near;
    axi_b_t answer;
  } memory_b_t;

  // A slice's channels, those of either direction together: what asks, and who answers. Each channel has
  // its own handshake.
  typedef struct packed {
    logic      ar_valid;
    access_t   ar;
    logic      r_ready;
    logic      aw_valid;
    access_t   aw;
    logic      w_valid;
    access_w_t w;
    logic      b_ready;
  } host_request_t;

  typedef struct packed {
    logic      ar_ready;
    logic      r_valid;
    access_r_t r;
    logic      aw_ready;
    logic      w_ready;
    logic      b_valid;
    axi_b_t    b;
  } host_answer_t;

  typedef struct packed {
    logic           ar_valid;
    memory_access_t ar;
    logic           r_ready;
    logic           aw_valid;
    memory_access_t aw;
    logic           w_valid;
    access_w_t      w;
    logic           b_ready;
  } memory_request_t;

  typedef struct packed {
    logic      ar_ready;
    logic      r_valid;
    memory_r_t r;
    logic      aw_ready;
    logic      w_ready;
    logic      b_valid;
    memory_b_t b;
  } memory_answer_t;

  // CXL's DevLoad.
  typedef enum logic [1:0] {
    LoadLight,
    LoadOptimal,
    LoadModerate,
    LoadSevere
  } dev_load_e;

  // What software may choose.
  localparam int unsigned AgeBits = 10;
  typedef logic [AgeBits-1:0] age_t;
  typedef struct packed {
    logic [3:0] share;        // Sixteenths of what memory takes, for near-data while the host asks too.
    age_t       age_cycles;   // Near-data that has waited so long goes next.
    depth_t     near_least;   // Near-data may always have so many in flight, 1 at least,
    depth_t     read_limit;   // and more while with the host's there are fewer reads than this,
    depth_t     write_limit;  // or writes than this.
    depth_t     optimal;      // Accesses in flight from which on DevLoad says more than light,
    depth_t     overload;     // and more than optimal.
  } inline_control_t;

  // Pages of memory, one for each queue, to whose first line the host writes where its rings stand.
  typedef struct packed {
    logic [MaxQueues-1:0] enable;
    address_t                          base;    // Of queue 0's; a multiple of BurstBytes.
  } doorbell_control_t;

  typedef struct packed {
    logic                         brings_tail;
    logic                         brings_head;
    logic [$clog2(MaxQueues)-1:0] index;  // Of the queue.
    logic [15:0]                  tail;   // Of its submission ring,
    logic [15:0]                  head;   // of its completion ring.
  } doorbell_t;

  // verilator lint_on UNUSEDPARAM

endpackage
