# Generated from rtl/abi/nearkv.toml by rtl/abi/gen.py; do not edit.
"""NearKV device contract, version 3.0: constants and structures for Python."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import NamedTuple


@dataclass(frozen=True)
class Record:
    """A structure in device memory: its `struct` format, size, and each field's byte offset."""

    format: str
    size_bytes: int
    offsets: dict[str, int]


class RegisterField(NamedTuple):
    """Bits of a register."""

    shift: int
    bits: int

    def get(self, register: int) -> int:
        """The field's value in a register's value."""
        return register >> self.shift & (1 << self.bits) - 1


@dataclass(frozen=True)
class RegisterArray:
    """A register that repeats."""

    offset: int
    stride: int
    count: int

    def at(self, index: int) -> int:
        """Byte offset of one of them; raises IndexError beyond the last."""
        if not 0 <= index < self.count:
            raise IndexError(f"register index {index} is not in 0..{self.count - 1}")
        return self.offset + index * self.stride


class StatusText(NamedTuple):
    """What a status means: its errno, positive, and what a person should read."""

    errno: int
    message: str


ABI_ID = 0x00564b5241454e01
ABI_MAJOR = 3
ABI_MINOR = 0
PAGE_MAGIC = 0x504b564e
PAGE_VERSION = 2

# Limits
# [tokens] Tokens of one closed page.
PAGE_TOKENS = 64
# [bytes] One memory burst: the grain in which a device reads and in which traffic is counted.
BURST_BYTES = 64
# [bytes] Every command, and every slot of a ring.
COMMAND_BYTES = 64
# [bytes] Device memory goes round a card's slices in granules of so many bytes, which are the lines
# that its CXL IP deals them.
SLICE_GRANULE_BYTES = 64
# [bytes] A page starts at a multiple of this; `page_entry.page` counts in it.
PAGE_GRAIN_BYTES = 256
# [tokens] Longest page list of one command. Longer contexts take several commands, merged by (O,
# LSE).
MAX_TOKENS = 1048576
# [rows] Most query rows (query heads of a KV head, times new tokens) in one command.
MAX_GROUP = 128
# [channels] Widest key row: an MLA latent of 512 plus its 64 rotary channels.
MAX_HEAD_DIM = 576
# [tokens] Largest k of TOPK.
MAX_TOP_K = 4096
# [queues] Queue register blocks in the map.
MAX_QUEUES = 16
# [bytes] From a queue's doorbell in device memory to the next's: a page of a host, which can give
# each to another process.
DOORBELL_STRIDE_BYTES = 4096
# [entries] Failed commands that a device remembers.
ERROR_ENTRIES = 16
# [words] Room for the registers of a hotness monitoring unit.
HOTNESS_WORDS = 2048
# [us] For so long at the least after a doorbell a device waits for what it told of and what is not
# in the submission ring yet.
SLOT_PATIENCE_US = 500
# [entries] Smallest ring.
MIN_RING_ENTRIES = 16
# [entries] Largest ring. Ring sizes are powers of two.
MAX_RING_ENTRIES = 4096
# [entries] Room for DELTA4 exceptions in a page, per tensor.
EXCEPTIONS = 16
# [planes] Bit planes of the codes of K.
KEY_CODE_PLANES = 4
# [planes] Bit planes of the codes of V.
VALUE_CODE_PLANES = 3
# [sets] Sign sets of codes.
SIGN_SETS = 16
# [pages] Pages in a row that share a sign set, and with it a transformed query, if APPEND does not
# say.
SIGN_RUN = 8
# [sixteenths] Standard deviations behind the bound of ATTEND in mode BOUNDED, if the command does
# not say.
USUAL_BOUND_Z = 26
# [sixteenths] Standard deviations that TOPK in mode STATISTICAL allows for, if the command does not
# say.
USUAL_SEARCH_Z = 96
# First word of a pool: 'NKVL'.
POOL_MAGIC = 1280723790
# [entries] Entries of the rings of a pool's queue.
POOL_RING_ENTRIES = 64
# [bytes] Where the second copy of a pool's header starts.
POOL_HEADER_COPY_AT = 2048
# Version of the pool's structures and of the pages in it.
POOL_VERSION = 5
# `slab_record.slot_bytes` of a slab that holds objects: no page is ever looked for in it.
SLAB_OF_OBJECTS = 1
# [bytes] Space for objects is counted in these, from the start of the pool.
OBJECT_GRAIN_BYTES = 4096
# [bytes] Largest object: its extents name it in slabs that do not touch, with room for as many
# pieces.
MAX_OBJECT_BYTES = 536870912
# [bytes] Keys up to this long are kept as they are; of a longer one, its SHA-256.
OBJECT_KEY_BYTES = 32
# [bytes] Nonce of a sealed part.
SEAL_NONCE_BYTES = 24
# [bytes] Authentication tag of a sealed part.
SEAL_TAG_BYTES = 16
# [parts] Most parts (layers) of an object, each with a checksum of its own.
MAX_OBJECT_PARTS = 1024
# [extents] Extents that fit an object's record.
RECORD_EXTENTS = 5
# [extents] Most extents of an object; beyond RECORD_EXTENTS they are listed in a grain of their
# own.
MAX_OBJECT_EXTENTS = 511
# [bytes] Where in its grain the checksum of a list of extents stands, over all bytes before it.
EXTENT_LIST_CRC_AT = 4092
# [bytes] Most bytes that a namespace's model, dtype and layout have together.
NAMESPACE_NAME_BYTES = 960
# [bytes] Room for those, rank and group, as a text for people.
NAMESPACE_TEXT_BYTES = 1024
# [bytes] What one record of the namespace table holds of a name; a longer one goes on in further
# records.
NAMESPACE_RECORD_TEXT_BYTES = 208
# First word of a shared region: 'NKVS'.
SHARE_MAGIC = 1398164302
# Version of the shared structures.
SHARE_VERSION = 1
# First word of each message between a daemon and its clients: 'NVKD'.
DAEMON_MAGIC = 1145787982
# Version of all that a daemon and its clients share. Both refuse another.
DAEMON_VERSION = 2
# [entries] Entries of a client's rings: most requests that it may have in flight.
DAEMON_RING_ENTRIES = 256
# [bytes] Room for why a client was refused.
DAEMON_REASON_BYTES = 384
# [bytes] Room for a tenant's name.
DAEMON_NAME_BYTES = 32
# [regions] Most regions of memory of one client, its window's data area among them.
DAEMON_MAX_REGIONS = 64
# First word of each message between stores of two machines: 'NVKR'.
REMOTE_MAGIC = 1380669006
# Version of all that the two share. Both refuse another.
REMOTE_VERSION = 3
# [runs] Most runs of bytes that one message carries.
REMOTE_MAX_RUNS = 64
# [messages] How far a message may be ahead of the first one that has not landed yet.
REMOTE_MAX_UNLANDED = 8192
# [bytes] Random bytes that each side contributes to a proof.
REMOTE_NONCE_BYTES = 32
# [bytes] HMAC-SHA256.
REMOTE_PROOF_BYTES = 32
# [vectors] Interrupts of a card's function: vector n is bit n of INTERRUPT_STATUS.
CARD_VECTORS = 19
# [queues] Most queues of one open file of the driver.
CARD_OPEN_QUEUES = 8
# [pages] Where in a file of the driver, in pages of DOORBELL_STRIDE_BYTES, its queues' doorbells
# are mapped; its window is mapped at 0.
CARD_MAP_DOORBELLS = 268435456
# [ms] How far counts and hot lists that the driver gives to perf may lie back, beside what reading
# registers takes.
CARD_LAG_MS = 20
# [bytes] Room for the name of a window that is kept.
CARD_NAME_BYTES = 32
# Type of the driver's ioctls.
CARD_IOCTL_TYPE = 231
# First word of an emulated function's bridge: 'NKVB'.
CARD_BRIDGE_MAGIC = 1112951630
# Version of the bridge. Both sides refuse another.
CARD_BRIDGE_VERSION = 1
# [bytes] Shared memory of an emulated function, its BAR 2; it begins with a `card_bridge`.
CARD_SHARED_BYTES = 65536
# [bytes] Where behind the engine's registers the firmware's stand: CXL device registers, as its
# section 8.2.8 lays them out.
CARD_MANAGEMENT_AT = 196608
# [bytes] Room for them.
CARD_MANAGEMENT_BYTES = 4096
# [bytes] Largest payload of the firmware's mailbox.
MAILBOX_BYTES = 2048
# [bytes] Where the firmware's processor sees its memory; its image begins there.
PROCESSOR_RAM_AT = 1048576
# [bytes] That memory: the image in its lower half, what it works on above. It ends with a
# `firmware_share`.
PROCESSOR_RAM_BYTES = 131072
# [bytes] Where in it.
PROCESSOR_SHARE_AT = 126976
# [bytes] Where it sees what it cannot write, right behind: the loader, at which it starts, and the
# firmware that is built in.
PROCESSOR_ROM_AT = 1179648
# [bytes] Both of them.
PROCESSOR_ROM_BYTES = 65536
# [bytes] The loader; the image that is built in is the rest.
PROCESSOR_LOADER_BYTES = 20480
# [bytes] Where it sees the cycles since reset, in two words, read as one from here on to 8 bytes
# behind: the lower one keeps the upper one still.
PROCESSOR_TIMER_AT = 2097152
# [bytes] A word that the firmware writes: 0 resets the core at once, anything else says that it is
# alive.
PROCESSOR_WATCHDOG_AT = 2097160
# [cycles] After so many without, the core is reset. Its memory stays as it is.
PROCESSOR_WATCHDOG_CYCLES = 8388608
# [bytes] Where in its memory a `firmware_boot` lies.
PROCESSOR_BOOT_AT = 126912
# [bytes] Where in its memory a `firmware_panic` lies.
PROCESSOR_PANIC_AT = 126944
# [bytes] Where in its memory that lies which outlives a restart, up to PROCESSOR_BOOT_AT: who has
# which dynamic capacity, the tenants' limits, and how the hotness monitors were set.
PROCESSOR_KEPT_AT = 125632
# [ns] One cycle of the firmware's processor.
PROCESSOR_CYCLE_NS = 10
# [bytes] Flash memory is erased by blocks, and written by lines of 64 bytes.
FLASH_BLOCK_BYTES = 4096
# [bytes] All of it: two blocks with a `boot_record` each, then the slots.
FLASH_BYTES = 147456
# [bytes] Where in it the first slot begins, with a `firmware_image`.
FLASH_SLOTS_AT = 8192
# [bytes] Each slot.
FLASH_SLOT_BYTES = 69632
# [slots] Images that it holds, counted from 1.
FLASH_SLOTS = 2
# [starts] Starts that a new image has to answer a command, before the card goes back to the one
# before.
BOOT_TRIES = 3
# First word of a boot record: 'NKVR'.
BOOT_RECORD_MAGIC = 1381387086
# First word of an image of the firmware: 'NKVI'.
IMAGE_MAGIC = 1230392142
# The firmware runs: 'NKVF'.
FIRMWARE_MAGIC = 1180060494
# [blocks] What dynamic capacity is lent in, at most so many of them.
CAPACITY_BLOCKS = 256
# [bytes] How small a block is at least; its size is a power of two.
CAPACITY_BLOCK_LEAST_BYTES = 2097152
# [tenants] Users of a card whose limits its firmware keeps.
CARD_TENANTS = 16
# [tags] Tags of dynamic capacity at a time; one of them is that of zeros.
CAPACITY_TAGS = 16
# [units] Hot units that the firmware keeps of an epoch, of each monitor.
HOTNESS_UNITS = 64
# [ms] The longest epoch that it counts in.
HOTNESS_EPOCH_MS = 4095
# [records] Events that each of the firmware's logs holds.
EVENT_LOG_RECORDS = 32
# [lines] Poisoned 64-byte lines that the firmware lists.
POISON_RECORDS = 256
# [lines] Poisoned lines that a scan of the memory tells; it stops at one more.
SCAN_RECORDS = 128
# [lines] Most of them that hosts may have injected.
INJECTED_POISON = 64

# Number formats
# Query element: signed integer, the head's largest exponent at the top.
QUERY_BITS = 24
# Key element in the exact stage: signed integer, the list's largest exponent at the top.
KEY_BITS = 27
# Value element: signed integer, the list's largest exponent at the top.
VALUE_BITS = 25
# Fraction bits of a logit in base 2.
LOGIT_FRACTION_BITS = 16
# Softmax weight mantissa: 1.17, before its right shift.
WEIGHT_BITS = 18
# Leading fraction bits that index the exp2 table; the rest interpolates.
EXP2_TABLE_BITS = 6


class Opcode(IntEnum):
    """What a command does."""

    # Nothing; completes.
    NOP = 0
    # Build pages from K and V rows.
    APPEND = 1
    # Give K or V rows back, exact or as their codes tell them.
    READ = 2
    # Score a group of queries against a page list and return the best k.
    TOPK = 3
    # softmax(q K) V over a page list: (O, LSE).
    ATTEND = 4
    # Pack chosen K or V rows for the host.
    GATHER = 5
    # Rewrite pages with another codec.
    TRANSCODE = 6
    # Verify every checksum of pages.
    SCRUB = 7
    # Wipe pages.
    ERASE = 8
    # Copy pages to other places.
    COPY = 9


class Status(IntEnum):
    """How a command ended. The errno is what the C API and the driver return, negated; the message
    is what a person reads.
    """

    # done
    OK = 0
    # the opcode is unknown to this device; check that library and device have the same ABI
    BAD_OPCODE = 1
    # a command field is out of range; detail is the field's byte offset
    BAD_FIELD = 2
    # an address lies outside the queue's window; detail is the address
    ADDRESS_FAULT = 3
    # the page was freed or rewritten since its entry was made; detail is the entry's index; look
    # the sequence up again
    STALE_PAGE = 4
    # a page's shape or format does not fit the command; detail is the entry's index
    BAD_PAGE = 5
    # a checksum is wrong, so the page or object was not used; detail is the entry's index; drop the
    # sequence or object and recompute it
    CORRUPT = 6
    # the memory reported poison; detail is the entry's index; drop the sequence or object and
    # recompute it
    POISON = 7
    # these rows do not fit the compact row form; detail is the page's index; append it with row
    # form RAW
    PAGE_OVERFLOW = 8
    # the query holds a NaN or an infinity; detail is the row
    BAD_QUERY = 9
    # this device does not offer the requested mode; read FEATURES
    UNSUPPORTED = 10
    # a page is compressed; transcode it to codec NONE first; detail is the entry's index
    COLD_PAGE = 11
    # the device was reset while the command was in flight; submit it again
    ABORTED = 12
    # the device failed; read DEVICE_STATUS
    INTERNAL = 13
    # a doorbell told of a command that was not written to the ring in time; the completion's
    # sq_head tells which; write commands with the ring's phase, then ring
    NOT_WRITTEN = 14
    # no such device, or it cannot be opened
    NO_DEVICE = 64
    # the device URI is malformed; see nearkv/device.hpp
    BAD_URI = 65
    # the device speaks another ABI; rebuild the library or update the device
    BAD_ABI = 66
    # an argument is out of range
    BAD_ARGUMENT = 67
    # the pool has no room left that may be used; drop or unpin something, or open a larger pool
    POOL_FULL = 68
    # no such sequence, object or namespace
    NOT_FOUND = 69
    # it exists already
    EXISTS = 70
    # the queue is full; poll completions and submit again
    QUEUE_FULL = 71
    # the device did not answer in time
    TIMEOUT = 72
    # the memory holds no NearKV pool, or one of another version; create it anew
    BAD_POOL = 73
    # the operating system refused an operation on the pool's memory
    IO_ERROR = 74
    # not enough memory
    OUT_OF_MEMORY = 75
    # compressed data is damaged
    CODEC_ERROR = 76
    # the job was cancelled before this item began
    CANCELLED = 77
    # the object is leased or being written; try again when that is over
    BUSY = 78
    # the tenant's quota is used up by objects that cannot be evicted; unpin some or raise it
    QUOTA = 79
    # this client may not do that; see the permissions of its tenant
    DENIED = 80
    # the daemon does not answer; start `nearkv serve`, or wait for its restart and try again
    NO_DAEMON = 81
    # opened before this process was made by fork(), and of no use in it; open or connect again here
    FORKED = 82
    # the namespace's model, dtype and layout are too long together; they may have 960 bytes
    NAME_TOO_LONG = 83
    # the object is too large; it may have 536870912 bytes (512 MiB)
    OBJECT_TOO_LARGE = 84
    # each namespace that may be there has objects or users; erase a namespace's objects and close
    # it, or raise max_namespaces: a tenant's in the daemon's configuration, a pool's when it is
    # made
    NAMESPACES_FULL = 85
    # the object does not fit the half of the window that carries bytes to the daemon; raise
    # window_bytes and the daemon's clients.window, or use memory of allocate()
    WINDOW_TOO_SMALL = 86
    # the other hosts hold this one for dead; drop its objects and join again
    FENCED = 88
    # other hosts have not answered yet; poll and call again
    NOT_YET = 89


class Dtype(IntEnum):
    """Element type of rows that the host hands over."""

    # bfloat16.
    BF16 = 0
    # IEEE binary16.
    FP16 = 1
    # IEEE binary32; queries only.
    FP32 = 2
    # OCP FP8 E4M3FN: no infinities, NaN = S.1111.111.
    FP8_E4M3 = 3
    # OCP FP8 E5M2.
    FP8_E5M2 = 4
    # Two's complement; the scale is the caller's.
    INT8 = 5


class RowForm(IntEnum):
    """How a page stores the exact rows of a tensor."""

    # The source elements, unchanged.
    RAW = 0
    # bf16 in 12 bits, lossless: a sign-and-mantissa byte and a 4-bit exponent below the channel's
    # largest; 0 is zero or an exception.
    DELTA4 = 1
    # Not stored: no values, or values that are the leading channels of K (MLA).
    NONE = 2


class Codec(IntEnum):
    """Compression of a page's payload. Only pages of codec NONE can be attended to."""

    # Attendable.
    NONE = 0
    # Lossless: exponent-delta bit planes, LZ4.
    PLANES_LZ4 = 2
    # Lossless: exponent-delta bit planes, ZSTD.
    PLANES_ZSTD = 3
    # Lossy: per channel for K, per token for V.
    INT8 = 4
    # Lossy: per channel for K, per token for V.
    INT4 = 5
    # Lossy: E4M3 with a power-of-two scale per channel for K, per token for V.
    FP8 = 6


class Select(IntEnum):
    """How TOPK finds its tokens."""

    # By codes: only rows are read that z-sigma bounds from codes leave in question, and the ids are
    # those of FULL but for a few. A list of pages without codes is answered as FULL does. Needs
    # feature CODES.
    STATISTICAL = 1
    # Every row is read exactly.
    FULL = 2
    # DSA lightning indexer: sum over heads of weight * relu(q k), one list for the whole group;
    # every row is read.
    INDEXER = 3


class AttendMode(IntEnum):
    """What ATTEND reads."""

    # Every visible token exactly.
    DENSE = 0
    # By codes: the best k tokens exactly, all others as their codes tell them. A list of pages
    # without codes is answered as DENSE does. Needs feature CODES.
    TAIL = 1
    # By codes: planes of codes and rows are read until the measured error is within `error`. A list
    # of pages without codes is answered as DENSE does. Needs feature CODES.
    BOUNDED = 2


class Tensor(IntEnum):
    """Which rows READ and GATHER return."""

    # K rows.
    KEYS = 0
    # V rows.
    VALUES = 1
    # All K rows, then all V rows.
    BOTH = 2


class PageState(IntEnum):
    """Life of a page slot."""

    # Nothing to find here.
    FREE = 0
    # Holds PAGE_TOKENS tokens and never changes.
    CLOSED = 1


class SequenceState(IntEnum):
    """State of a sequence record."""

    # Nobody's.
    FREE = 0
    # A sequence.
    ACTIVE = 1
    # Dropped, but forks share its pages.
    DROPPED = 2


class ObjectState(IntEnum):
    """State of an object's or a namespace's record."""

    # Nobody's.
    FREE = 0
    # Complete, and there until deleted.
    LIVE = 1
    # Its memory could not be read; never given out or used again.
    POISONED = 2
    # Deleted; its bytes are wiped before its room is used again.
    DOOMED = 3
    # Of the namespace table: more of the name of the namespace with the same digest.
    CONTINUED = 4


class DaemonOperation(IntEnum):
    """What a client asks of a daemon. Jobs, which can be cancelled, come first; the others are
    answered at once.
    """

    # Job: copies objects out.
    GET = 0
    # Job: copies objects in.
    SET = 1
    # Job: deletes objects.
    ERASE = 2
    # Job: OK or NOT_FOUND for each key.
    EXISTS = 3
    # Job: copies parts of objects in.
    SET_PARTS = 4
    # Ends the job whose tag is `argument`.
    CANCEL = 16
    # Which keys are there: `value` of the completion counts them from the first on; one byte each
    # to the result.
    LOOK_UP = 17
    # Length of the longest stored prefix of a chain of keys, as `value`.
    MATCH_PREFIX = 18
    # Marks objects as used.
    TOUCH = 19
    # Leases objects for `argument` ns: the lease is `value`; one status each to the result.
    PIN = 20
    # Ends the lease `argument`.
    UNPIN = 21
    # The request is a daemon_namespace; its number is `value`.
    OPEN_NAMESPACE = 22
    # Tenant `number` may hold `argument` bytes.
    SET_QUOTA = 23
    # A daemon_store_stats to the result.
    STATS = 24
    # daemon_namespace_info [`count`] to the result, from the `number`-th on.
    NAMESPACES = 25
    # daemon_object_info [`count`] to the result, from record `number` on.
    LIST = 26
    # Checks up to `items` records from record `number` on: a daemon_verify_progress to the result.
    VERIFY = 27
    # Moves up to about `argument` bytes; what it moved is `value`.
    DEFRAGMENT = 28
    # daemon_tenant_info [`count`] to the result, from the `number`-th on.
    TENANTS = 29
    # daemon_client_info [`count`] to the result, from the `number`-th on.
    CLIENTS = 30
    # Tenant `number`: whether (`argument`) what is stored from now on is wiped when it goes.
    SET_WIPE = 31
    # daemon_store_stats [`count`] to the result, one for each tier, the fastest first.
    TIER_STATS = 32
    # daemon_object_info [`count`] to the result: what would be evicted next, about `argument` bytes
    # of it.
    COLDEST = 33
    # The request is a daemon_namespace_info of whichever store; its number here is `value`.
    ADOPT_NAMESPACE = 34
    # From now on keeps the last `argument` changes in namespaces that the client has opened; an
    # administrator's, in all. 0: none.
    WATCH = 35
    # daemon_event [`count`] to the result, the oldest first; `value`: how many more there were than
    # fit.
    TAKE_EVENTS = 36
    # daemon_object_info of the one key to the result.
    DESCRIBE_OBJECT = 37
    # Undoes OPEN_NAMESPACE or ADOPT_NAMESPACE of namespace `number`.
    CLOSE_NAMESPACE = 38


class DaemonMessage(IntEnum):
    """What a message on a daemon's socket is."""

    # The client's first.
    HELLO = 1
    # The daemon's answer to it.
    WELCOME = 2
    # The client brings a memfd, sealed against shrinking, as a region.
    REGISTER = 3
    # The client takes a region back.
    UNREGISTER = 4
    # The daemon's answer to both.
    REPLY = 5


class StoreEvent(IntEnum):
    """What has become of an object."""

    # It is there.
    STORED = 0
    # It had to make room, or was too old.
    EVICTED = 1
    # A client erased it.
    ERASED = 2
    # Its checksum failed, or its memory reported poison.
    DAMAGED = 3


class RemoteKind(IntEnum):
    """What a message between stores of two machines is. The first four open a connection, over TCP,
    in this order.
    """

    # The client's first: its nonce.
    HELLO = 1
    # The server's nonce.
    CHALLENGE = 2
    # The client's proof, and its UCX worker's address.
    PROOF = 3
    # The server's answer: its proof and its address, or why not.
    WELCOME = 4
    # Bytes for the other side's data area: daemon_segment [`runs`] follow in the header.
    DATA = 5
    # A daemon_submission follows in the header; the request is the message's data.
    SUBMISSION = 6
    # A daemon_completion follows in the header; the result is the message's data.
    COMPLETION = 7


class CardOperation(IntEnum):
    """What the driver asks for over the bridge of an emulated function."""

    # `value` of the register at `address`.
    READ = 1
    # The register at `address` becomes `value`.
    WRITE = 2
    # `bytes` of device memory from `address` on become zero.
    WIPE = 3


class CciOpcode(IntEnum):
    """Commands of the firmware's mailbox; CXL 3.1, section 8.2.10."""

    # What the component is.
    IDENTIFY = 1
    # How far the operation in the background is.
    GET_BACKGROUND = 2
    # End it.
    ABORT_BACKGROUND = 5
    # The oldest events of a log.
    GET_EVENT_RECORDS = 256
    # Forget events that were read.
    CLEAR_EVENT_RECORDS = 257
    # How each log interrupts.
    GET_EVENT_INTERRUPTS = 258
    # Say so.
    SET_EVENT_INTERRUPTS = 259
    # The slots, and what they hold.
    GET_FIRMWARE = 512
    # A part of an image, or all of it.
    TRANSFER_FIRMWARE = 513
    # Start an image, now or with the next reset.
    ACTIVATE_FIRMWARE = 514
    # Nanoseconds since 1970; 0 before it was set.
    GET_TIMESTAMP = 768
    # Set them.
    SET_TIMESTAMP = 769
    # The logs there are.
    GET_SUPPORTED_LOGS = 1024
    # A part of a log.
    GET_LOG = 1025
    # The features there are.
    GET_SUPPORTED_FEATURES = 1280
    # A part of one.
    GET_FEATURE = 1281
    # Set one, whole or in parts.
    SET_FEATURE = 1282
    # Capacity, and sizes of logs and lists.
    IDENTIFY_MEMORY = 16384
    # How much is volatile.
    GET_PARTITION = 16640
    # Health, temperature, corrected errors.
    GET_HEALTH = 16896
    # When health is told of.
    GET_ALERTS = 16897
    # Say so.
    SET_ALERTS = 16898
    # Poisoned lines of a range.
    GET_POISON = 17152
    # Poison a line.
    INJECT_POISON = 17153
    # Write a line, which then is no longer poisoned.
    CLEAR_POISON = 17154
    # How long a scan of a range takes.
    GET_SCAN_CAPABILITIES = 17155
    # Look for poison in a range, in the background.
    SCAN_MEDIA = 17156
    # What the last scan found.
    GET_SCAN_RESULTS = 17157
    # Wipe all of the memory, in the background.
    SANITIZE = 17408
    # The regions of dynamic capacity.
    GET_DYNAMIC_CAPACITY = 18432
    # What of it the host has.
    GET_DYNAMIC_EXTENTS = 18433
    # Accept what was offered, or a part of it.
    ADD_DYNAMIC_RESPONSE = 18434
    # Give some of it back.
    RELEASE_DYNAMIC = 18435
    # A fabric manager offers the host capacity.
    INITIATE_DYNAMIC_ADD = 22020
    # It asks for some back, or takes it.
    INITIATE_DYNAMIC_RELEASE = 22021


class CciStatus(IntEnum):
    """How a command of the mailbox ended; CXL 3.1, table 8-34."""

    # Done.
    SUCCESS = 0
    # It goes on in the background.
    BACKGROUND_STARTED = 1
    # A field has a value that it may not have.
    INVALID_INPUT = 2
    # No such command.
    UNSUPPORTED = 3
    # The card failed.
    INTERNAL_ERROR = 4
    # Not now: the host has not answered what it was offered.
    RETRY_REQUIRED = 5
    # Another operation runs in the background.
    BUSY = 6
    # The memory is being wiped.
    MEDIA_DISABLED = 7
    # Parts of an image are there already.
    FIRMWARE_TRANSFER_IN_PROGRESS = 8
    # Not the part that follows.
    FIRMWARE_TRANSFER_OUT_OF_ORDER = 9
    # The image is not whole, or not signed by whom the card trusts.
    FIRMWARE_AUTHENTICATION_FAILED = 10
    # No such slot, or the one that runs, or one without an image.
    INVALID_SLOT = 11
    # The new image did not come up: the one before runs.
    FIRMWARE_ROLLED_BACK = 12
    # Not the handle of the oldest event.
    INVALID_HANDLE = 14
    # Outside the memory.
    INVALID_PHYSICAL_ADDRESS = 15
    # INJECTED_POISON lines are.
    INJECT_POISON_LIMIT = 16
    # The host ended it.
    ABORTED = 18
    # The payload is longer or shorter than the command's.
    INVALID_PAYLOAD_LENGTH = 22
    # No such log.
    INVALID_LOG = 23
    # Of another version.
    UNSUPPORTED_FEATURE_VERSION = 25
    # Only its current value can be had.
    UNSUPPORTED_FEATURE_SELECTION = 26
    # Parts of a feature are there already.
    FEATURE_TRANSFER_IN_PROGRESS = 27
    # Not the part that follows.
    FEATURE_TRANSFER_OUT_OF_ORDER = 28
    # Too little free capacity, tags, or room for events.
    RESOURCES_EXHAUSTED = 29
    # Not whole blocks, or some twice.
    INVALID_EXTENT_LIST = 30
    # The operation in the background cannot be ended.
    REQUEST_ABORT_NOT_SUPPORTED = 32


class CciTransfer(IntEnum):
    """Which part of an image or of a feature a command carries."""

    # All of it.
    FULL = 0
    # The first.
    INITIATE = 1
    # One between.
    CONTINUE = 2
    # The last.
    END = 3
    # None: those that came are forgotten.
    ABORT = 4


class CardFeature(IntEnum):
    """Features of the firmware, by their indices in its list of them."""

    # Device patrol scrub control.
    SCRUB = 0
    # Registers INLINE_CONTROL, INLINE_LIMITS and INLINE_LOAD.
    SHARING = 1
    # What users may have of the card: CARD_TENANTS times `card_tenant`, each owner once.
    TENANTS = 2
    # What the firmware counts while no host does: a `hotness_setting` of each `card_monitor`, and
    # behind them, to be read only, a `hotness_status` of each.
    HOTNESS = 3


class CardTenantKind(IntEnum):
    """Whose entry a `card_tenant` is."""

    # Nobody's, and all of it zero.
    NONE = 0
    # A user's.
    USER = 1
    # That of all users who have none of their own.
    OTHERS = 2


class CardLog(IntEnum):
    """Logs of the firmware, by their indices in its list of them."""

    # The commands, and what they do.
    COMMAND_EFFECTS = 0
    # The vendor's debug log: a `firmware_panic`.
    PANIC = 1
    # A `hotness_list` of each `card_monitor`.
    HOTNESS = 2


class FirmwareOperation(IntEnum):
    """What the firmware asks of the logic around its processor."""

    # The line at `operation_at` answers with poison.
    POISON = 1
    # It becomes `line`.
    WRITE = 2
    # `operation_bytes` of device memory from `operation_at` on are read; `operation_at` is then the
    # first line that is poisoned, or where they end.
    CHECK = 3
    # `operation_bytes` of device memory from `operation_at` on become zero.
    WIPE = 4
    # `line` begins with the engine's register at `operation_at`.
    READ_REGISTER = 5
    # It becomes the 8 bytes that `line` begins with.
    WRITE_REGISTER = 6
    # `line` is that of flash memory at `operation_at`.
    READ_FLASH = 7
    # Bits of that line that are 0 in `line` become 0.
    WRITE_FLASH = 8
    # Bits of the block of flash memory at `operation_at` become 1.
    ERASE_FLASH = 9


class CardCounter(IntEnum):
    """Events of the perf PMU `nearkvN`, as `config`: sums over all queues."""

    # TOTAL_COMMANDS.
    COMMANDS = 0
    # TOTAL_STREAM_BURSTS.
    STREAM_BURSTS = 1
    # TOTAL_REFINE_BURSTS.
    REFINE_BURSTS = 2
    # TOTAL_EXACT_BURSTS.
    EXACT_BURSTS = 3
    # TOTAL_VALUE_BURSTS.
    VALUE_BURSTS = 4
    # TOTAL_WRITTEN_BURSTS.
    WRITTEN_BURSTS = 5
    # TOTAL_BUSY_TICKS.
    BUSY_TICKS = 6


class CardMonitor(IntEnum):
    """Hotness monitors."""

    # HOST_HOTNESS.
    HOST = 0
    # NEAR_HOTNESS.
    NEAR = 1


class HotnessState(IntEnum):
    """What the firmware does with a monitor."""

    # Nothing: it is not to.
    OFF = 0
    # It sets it up.
    STARTING = 1
    # It takes its hot list.
    COUNTING = 2
    # Nothing, as somebody on the host has it; it goes on when the monitor is disabled.
    HOST = 3
    # Nothing: the monitor cannot count as it is set.
    UNFIT = 4
    # None that it knows answers, or it does not do as it is told; it tries again each second.
    ABSENT = 5


class ShareEntryKind(IntEnum):
    """What an entry of a host's log says."""

    # An object, or the next version of a mutable one, can be read.
    PUBLISH = 1
    # An object is gone; its extents are reused once nobody can be reading them.
    REMOVE = 2
    # Extents belong to another host from here on.
    TRANSFER = 3


class ShareMessageKind(IntEnum):
    """What one host asks of another, or answers."""

    # To the home: let me read the object until further notice.
    READ = 1
    # To the home: let me write the next version, of `length` bytes.
    WRITE = 2
    # From the home: `version` is valid until INVALIDATE.
    GRANT_READ = 3
    # From the home: nobody reads the object; write `version` to `first_extent`.
    GRANT_WRITE = 4
    # From the home: stop reading.
    INVALIDATE = 5
    # To the home: I have stopped.
    INVALIDATED = 6
    # To the home: `version` is in memory; publish it.
    WRITTEN = 7
    # From the home: `version` is published.
    DONE = 8
    # To a neighbour: lend me `length` extents.
    ASK = 9


class DaemonFlag(IntFlag):
    """Options of a submission."""

    # SET: each item is the block after the one before it.
    CHAIN = 1 << 0
    # SET: replace what is there.
    OVERWRITE = 1 << 1
    # The completion makes the client's descriptor readable, whether it sleeps or not.
    NOTIFY = 1 << 2
    # GET: no use that eviction or statistics should see.
    QUIET = 1 << 3
    # SET: nobody has to make room.
    KEEP = 1 << 4


class ObjectFlag(IntFlag):
    """How an object is stored."""

    # After the payload stands a CRC32C for each part, and `payload_crc` is of those.
    PARTS = 1 << 0
    # A block of a prefix: `parent` is the one before it, 0 for the first.
    CHAINED = 1 << 1
    # Its bytes are wiped when it goes.
    WIPE = 1 << 2
    # The payload is encrypted: after it stands an object_seal for each part, or one, and
    # `payload_crc` is of those.
    SEALED = 1 << 3


class AttendFlag(IntFlag):
    """Options of ATTEND."""

    # O is bf16; fp32 otherwise.
    OUTPUT_BF16 = 1 << 0
    # LSE is a base-2 logarithm; natural otherwise.
    LSE_BASE2 = 1 << 1


class AppendFlag(IntFlag):
    """Options of APPEND."""

    # Each key row is followed by its fp32 scale (fp8 indexer keys).
    KEY_SCALES = 1 << 0
    # The pages get codes, with the gains that stand behind the entries.
    CODES = 1 << 1


class PageFlag(IntFlag):
    """What a page carries besides its rows."""

    # The KEY_SCALES array is present.
    KEY_SCALES = 1 << 0
    # The arrays of codes, CODE_SUMMARY to K_GAINS, are present. To a device without feature
    # CODE_PAGES such a page is BAD_PAGE.
    CODES = 1 << 1


class ReadFlag(IntFlag):
    """Options of READ."""

    # Rows as the codes of `planes` planes tell them, in bf16.
    CODES = 1 << 0


class SlotFlag(IntFlag):
    """What a slot of a submission ring says in its command's `flags`, where no command has an
    option.
    """

    # The ring's current phase (1 in the first round, then alternating): the slot is written. A
    # doorbell may overtake the stores before it, so the device waits for this, SLOT_PATIENCE_US at
    # the least, and ends a command that does not come with NOT_WRITTEN. The host writes the first
    # 32 bits of a slot last. Commands lose it as they are fetched.
    PHASE = 1 << 7


class CompletionFlag(IntFlag):
    """What a person should know of a result."""

    # Tokens whose key (or key scale, where it is used) holds a NaN or infinity took no part.
    NONFINITE = 1 << 0
    # TAIL or BOUNDED was answered by a dense read: the list has no codes, codes could not say its
    # scores, or it was cheaper.
    DENSE_FALLBACK = 1 << 1
    # BOUNDED stopped at its byte cap; `bound` says what was reached.
    CAPPED = 1 << 2


class Feature(IntFlag):
    """FEATURES register."""

    # DSA indexer selection.
    INDEXER = 1 << 1
    # TRANSCODE, between the codecs that CODECS names.
    TRANSCODE = 1 << 4
    # Completions carry device time.
    TICKS = 1 << 5
    # Queues share the device by WEIGHT.
    QUEUE_WEIGHTS = 1 << 6
    # INTERRUPT_STATUS, INTERRUPT_MASK and COALESCE.
    INTERRUPTS = 1 << 7
    # TOTAL registers of each queue.
    COUNTERS = 1 << 8
    # ERROR registers.
    ERROR_LOG = 1 << 9
    # INLINE registers.
    INLINE_CONTROL = 1 << 10
    # DOORBELL registers.
    MEMORY_DOORBELLS = 1 << 11
    # HOST_HOTNESS and NEAR_HOTNESS.
    HOTNESS = 1 << 12
    # Pages with codes: flag CODES of APPEND, and such pages wherever their rows are used. A device
    # without it answers UNSUPPORTED.
    CODE_PAGES = 1 << 13
    # CODE_PAGES, and what is done by codes: flag CODES of READ, ATTEND's modes TAIL and BOUNDED,
    # STATISTICAL of TOPK, TRANSCODE of pages with codes. A device without it answers UNSUPPORTED.
    CODES = 1 << 14


class CardWindowFlag(IntFlag):
    """How a window is had."""

    # It outlives the file, under its name, for the user who made it; without, it goes with the
    # file.
    KEEP = 1 << 0
    # Only one that was kept.
    MUST_EXIST = 1 << 1


STATUS = {
    Status.OK: StatusText(
        0,
        "done",
    ),
    Status.BAD_OPCODE: StatusText(
        errno.EINVAL,
        "the opcode is unknown to this device; check that library and device have the same ABI",
    ),
    Status.BAD_FIELD: StatusText(
        errno.EINVAL,
        "a command field is out of range; detail is the field's byte offset",
    ),
    Status.ADDRESS_FAULT: StatusText(
        errno.EFAULT,
        "an address lies outside the queue's window; detail is the address",
    ),
    Status.STALE_PAGE: StatusText(
        errno.ESTALE,
        "the page was freed or rewritten since its entry was made; detail is the entry's index; "
        "look the sequence up again",
    ),
    Status.BAD_PAGE: StatusText(
        errno.EINVAL,
        "a page's shape or format does not fit the command; detail is the entry's index",
    ),
    Status.CORRUPT: StatusText(
        errno.EBADMSG,
        "a checksum is wrong, so the page or object was not used; detail is the entry's index; "
        "drop the sequence or object and recompute it",
    ),
    Status.POISON: StatusText(
        errno.EIO,
        "the memory reported poison; detail is the entry's index; drop the sequence or object and "
        "recompute it",
    ),
    Status.PAGE_OVERFLOW: StatusText(
        errno.EMSGSIZE,
        "these rows do not fit the compact row form; detail is the page's index; append it with "
        "row form RAW",
    ),
    Status.BAD_QUERY: StatusText(
        errno.EDOM,
        "the query holds a NaN or an infinity; detail is the row",
    ),
    Status.UNSUPPORTED: StatusText(
        errno.EOPNOTSUPP,
        "this device does not offer the requested mode; read FEATURES",
    ),
    Status.COLD_PAGE: StatusText(
        errno.EUCLEAN,
        "a page is compressed; transcode it to codec NONE first; detail is the entry's index",
    ),
    Status.ABORTED: StatusText(
        errno.ECANCELED,
        "the device was reset while the command was in flight; submit it again",
    ),
    Status.INTERNAL: StatusText(
        errno.EIO,
        "the device failed; read DEVICE_STATUS",
    ),
    Status.NOT_WRITTEN: StatusText(
        errno.EPROTO,
        "a doorbell told of a command that was not written to the ring in time; the completion's "
        "sq_head tells which; write commands with the ring's phase, then ring",
    ),
    Status.NO_DEVICE: StatusText(
        errno.ENODEV,
        "no such device, or it cannot be opened",
    ),
    Status.BAD_URI: StatusText(
        errno.EINVAL,
        "the device URI is malformed; see nearkv/device.hpp",
    ),
    Status.BAD_ABI: StatusText(
        errno.EPROTO,
        "the device speaks another ABI; rebuild the library or update the device",
    ),
    Status.BAD_ARGUMENT: StatusText(
        errno.EINVAL,
        "an argument is out of range",
    ),
    Status.POOL_FULL: StatusText(
        errno.ENOSPC,
        "the pool has no room left that may be used; drop or unpin something, or open a larger "
        "pool",
    ),
    Status.NOT_FOUND: StatusText(
        errno.ENOENT,
        "no such sequence, object or namespace",
    ),
    Status.EXISTS: StatusText(
        errno.EEXIST,
        "it exists already",
    ),
    Status.QUEUE_FULL: StatusText(
        errno.EAGAIN,
        "the queue is full; poll completions and submit again",
    ),
    Status.TIMEOUT: StatusText(
        errno.ETIMEDOUT,
        "the device did not answer in time",
    ),
    Status.BAD_POOL: StatusText(
        errno.EUCLEAN,
        "the memory holds no NearKV pool, or one of another version; create it anew",
    ),
    Status.IO_ERROR: StatusText(
        errno.EIO,
        "the operating system refused an operation on the pool's memory",
    ),
    Status.OUT_OF_MEMORY: StatusText(
        errno.ENOMEM,
        "not enough memory",
    ),
    Status.CODEC_ERROR: StatusText(
        errno.EBADMSG,
        "compressed data is damaged",
    ),
    Status.CANCELLED: StatusText(
        errno.ECANCELED,
        "the job was cancelled before this item began",
    ),
    Status.BUSY: StatusText(
        errno.EBUSY,
        "the object is leased or being written; try again when that is over",
    ),
    Status.QUOTA: StatusText(
        errno.EDQUOT,
        "the tenant's quota is used up by objects that cannot be evicted; unpin some or raise it",
    ),
    Status.DENIED: StatusText(
        errno.EACCES,
        "this client may not do that; see the permissions of its tenant",
    ),
    Status.NO_DAEMON: StatusText(
        errno.ECONNREFUSED,
        "the daemon does not answer; start `nearkv serve`, or wait for its restart and try again",
    ),
    Status.FORKED: StatusText(
        errno.ESTALE,
        "opened before this process was made by fork(), and of no use in it; open or connect again "
        "here",
    ),
    Status.NAME_TOO_LONG: StatusText(
        errno.ENAMETOOLONG,
        "the namespace's model, dtype and layout are too long together; they may have 960 bytes",
    ),
    Status.OBJECT_TOO_LARGE: StatusText(
        errno.EFBIG,
        "the object is too large; it may have 536870912 bytes (512 MiB)",
    ),
    Status.NAMESPACES_FULL: StatusText(
        errno.ENOSPC,
        "each namespace that may be there has objects or users; erase a namespace's objects and "
        "close it, or raise max_namespaces: a tenant's in the daemon's configuration, a pool's "
        "when it is made",
    ),
    Status.WINDOW_TOO_SMALL: StatusText(
        errno.EMSGSIZE,
        "the object does not fit the half of the window that carries bytes to the daemon; raise "
        "window_bytes and the daemon's clients.window, or use memory of allocate()",
    ),
    Status.FENCED: StatusText(
        errno.ESTALE,
        "the other hosts hold this one for dead; drop its objects and join again",
    ),
    Status.NOT_YET: StatusText(
        errno.EAGAIN,
        "other hosts have not answered yet; poll and call again",
    ),
}

# One page of a sequence, as page lists name it. The host writes `page` and `generation` before
# APPEND, the device the exponents; entries may be copied freely (forks share pages).
PAGE_ENTRY = Record(
    "<IHBB",
    8,
    {
        "page": 0,
        "generation": 4,
        "k_exponent": 6,
        "v_exponent": 7,
    },
)

# Head of a page. The first 64 bytes are all of it that a scan of codes reads, the tenant among
# them: a page that is touched tells its tenant. Without flag CODES what it says of codes is zero;
# with it, a sign set that is none is BAD_PAGE to a command that uses codes. CRC32C (Castagnoli,
# initial value and final inversion all ones) per array and per header half. Of the header, the
# halves that a command relies on are compared at each use. Arrays are compared in one of two ways,
# and a device's documentation says which: those that a command streams, each time; or all of a page
# before the first command that uses it since it came in or the device was reset, and again before a
# use when the last comparison is older than a stated time. Either way the page is CORRUPT, and
# nothing of it is used. READ, GATHER, COPY, TRANSCODE and SCRUB compare each time.
PAGE_HEADER = Record(
    "<IHBBBBBBHHHHBBBBQHhhhhBBIIIIIIIIIIIIIIIQHHIII",
    128,
    {
        "magic": 0,
        "version": 4,
        "state": 6,
        "flags": 7,
        "k_form": 8,
        "v_form": 9,
        "dtype": 10,
        "codec": 11,
        "head_dim": 12,
        "value_dim": 14,
        "generation": 16,
        "tokens": 18,
        "k_exponent": 20,
        "v_exponent": 21,
        "k_exceptions": 22,
        "v_exceptions": 23,
        "nonfinite": 24,
        "tenant": 32,
        "k_mean_power": 34,
        "v_mean_power": 36,
        "k_top": 38,
        "v_top": 40,
        "sign_set": 42,
        "reserved": 43,
        "crc_code_summary": 44,
        "crc_k_signs": 48,
        "crc_k_gains": 52,
        "reserved2": 56,
        "crc_hot": 60,
        "crc_k_exponents": 64,
        "crc_k_rows": 68,
        "crc_k_exceptions": 72,
        "crc_key_scales": 76,
        "crc_v_exponents": 80,
        "crc_v_rows": 84,
        "crc_v_exceptions": 88,
        "crc_k_codes": 92,
        "crc_v_codes": 96,
        "first_token": 100,
        "sequence_id": 104,
        "layer": 112,
        "kv_head": 114,
        "payload_bytes": 116,
        "reserved3": 120,
        "crc_cold": 124,
    },
)

# An element that DELTA4 cannot hold: smaller than 2^-14 of its channel's largest, or not finite.
# Scores and values count it as zero; READ and GATHER restore it.
ROW_EXCEPTION = Record(
    "<HH",
    4,
    {
        "element": 0,
        "bits": 2,
    },
)

# Follows the header of a compressed page. Behind it come the K block, the V block unless v_form is
# NONE, KEY_SCALES if flagged, and K_GAINS with CODES, each starting at a multiple of BURST_BYTES
# from the page's start; bytes between them are zero. A block is one tensor in the header's codec
# (host_lib/src/codec/FORMATS.md). In the header, payload_bytes reaches to the end of the last part,
# crc_v_exceptions covers them all, the other arrays' checksums are zero, and what else it says is
# what the source page said. The page's size is rounded up to PAGE_GRAIN_BYTES, with zeros.
COLD_PAYLOAD = Record(
    "<IIQ",
    16,
    {
        "k_bytes": 0,
        "v_bytes": 4,
        "reserved": 8,
    },
)

# Build `tokens` / PAGE_TOKENS pages. The pages' places overlap neither each other nor the bytes
# from the first row to the last (BAD_FIELD, detail = offset of `page_list`). All or nothing: on an
# error no entry has changed and no new page can be found; what its place held may be lost. With
# CODES, K_GAINS of all pages stand behind the page_list's last entry. The completion means that the
# pages are durable where the memory is: neither the end of a process nor, on memory that outlives
# it, the loss of power undoes them. At no moment can a page be found whose bytes are not durable.
APPEND_COMMAND = Record(
    "<BBHHHIIQQQQHHIIBBBB",
    64,
    {
        "opcode": 0,
        "flags": 1,
        "tag": 2,
        "head_dim": 4,
        "value_dim": 6,
        "tokens": 8,
        "first_token": 12,
        "keys": 16,
        "values": 24,
        "page_list": 32,
        "sequence_id": 40,
        "layer": 48,
        "kv_head": 50,
        "key_stride": 52,
        "value_stride": 56,
        "dtype": 60,
        "k_form": 61,
        "v_form": 62,
        "sign_run": 63,
    },
)

# O = softmax(scale * q K) V and LSE per row over the visible tokens of a page list. Writes O
# [group][value_dim], LSE fp32 [group], bound fp32 [group]. All pages of a list store values, or
# none does. A token t is visible if t < tokens and (window = 0 or t >= tokens - window or t <
# sinks).
ATTEND_COMMAND = Record(
    "<BBHHHIIQQQffBBHBBBBfI",
    64,
    {
        "opcode": 0,
        "flags": 1,
        "tag": 2,
        "head_dim": 4,
        "value_dim": 6,
        "tokens": 8,
        "window": 12,
        "query": 16,
        "page_list": 24,
        "result": 32,
        "scale": 40,
        "soft_cap": 44,
        "sinks": 48,
        "byte_cap": 49,
        "top_k": 50,
        "mode": 52,
        "group": 53,
        "query_dtype": 54,
        "z": 55,
        "error": 56,
        "reserved": 60,
    },
)

# The best k tokens per row, by score descending, ties by index ascending. Writes ids u32
# [group][top_k], scores fp32 [group][top_k] (scale * q k), counts u32 [group]; INDEXER writes one
# row. Unused places hold id 2^32 - 1 and score -inf.
TOPK_COMMAND = Record(
    "<BBHHHIIQQQfIBBHBBBBQ",
    64,
    {
        "opcode": 0,
        "flags": 1,
        "tag": 2,
        "head_dim": 4,
        "reserved": 6,
        "tokens": 8,
        "window": 12,
        "query": 16,
        "page_list": 24,
        "result": 32,
        "scale": 40,
        "reserved2": 44,
        "sinks": 48,
        "reserved3": 49,
        "top_k": 50,
        "mode": 52,
        "group": 53,
        "query_dtype": 54,
        "z": 55,
        "weights": 56,
    },
)

# Rows `first` to `first + count` of a page list, in the source dtype, each tensor's rows contiguous
# and starting at a multiple of 64 bytes. The bytes from the first row to the last overlap neither a
# page that is read, nor the entries up to it, nor GATHER's ids (BAD_FIELD, detail = offset of
# `result`).
READ_COMMAND = Record(
    "<BBHBBHIIQQQ3Q",
    64,
    {
        "opcode": 0,
        "flags": 1,
        "tag": 2,
        "tensor": 4,
        "planes": 5,
        "reserved": 6,
        "first": 8,
        "count": 12,
        "reserved2": 16,
        "page_list": 24,
        "result": 32,
        "reserved3": 40,
    },
)

# Rows of chosen tokens, in the order of `ids`, laid out as READ does.
GATHER_COMMAND = Record(
    "<BBHB3BIIQQQ3Q",
    64,
    {
        "opcode": 0,
        "flags": 1,
        "tag": 2,
        "tensor": 4,
        "reserved": 5,
        "tokens": 8,
        "count": 12,
        "ids": 16,
        "page_list": 24,
        "result": 32,
        "reserved2": 40,
    },
)

# Whole pages, attendable or compressed: SCRUB and ERASE use `source`; TRANSCODE and COPY also
# `destination`, whose entries name the new places and generations and receive the exponents. These
# places overlap no source and each other not (BAD_FIELD); every checksum of a source is verified
# first. TRANSCODE decodes a page to its rows, encodes them anew and writes the new page's size in
# bytes (u32) to `result`; a page larger than `slot_bytes` is PAGE_OVERFLOW, a codec that does not
# take the rows (lossy ones: bf16, finite, below 2^126 for INT8 and INT4) BAD_PAGE, a damaged source
# CORRUPT, a codec that CODECS does not name, rows wider than LIMITS or, without feature CODES, a
# page with codes UNSUPPORTED. Codec NONE builds the page as APPEND does, in the source's row forms;
# rows that a lossy codec has changed so that DELTA4 cannot hold them become RAW, K and V both. A
# command stops at the first page that fails: those before it are done, as the completion's `count`
# says, and their sources stay; what the others' new places held may be lost. The completion means
# that what was done is durable where the memory is, as with APPEND: new pages of TRANSCODE and
# COPY, and the zeros of ERASE.
PAGES_COMMAND = Record(
    "<BBHB3BIIQQQ3Q",
    64,
    {
        "opcode": 0,
        "flags": 1,
        "tag": 2,
        "codec": 4,
        "reserved": 5,
        "count": 8,
        "slot_bytes": 12,
        "source": 16,
        "destination": 24,
        "result": 32,
        "reserved2": 40,
    },
)

# Posted to the completion ring. The device writes the first 32 bits last; a new entry is one whose
# `phase` equals the ring's current phase (1 in the first round, then alternating).
COMPLETION = Record(
    "<HBBIQIIIIHBBfQ2Q",
    64,
    {
        "tag": 0,
        "status": 2,
        "phase": 3,
        "count": 4,
        "detail": 8,
        "stream_bursts": 16,
        "refine_bursts": 20,
        "exact_bursts": 24,
        "value_bursts": 28,
        "sq_head": 32,
        "flags": 34,
        "rounds": 35,
        "bound": 36,
        "ticks": 40,
        "reserved": 48,
    },
)

# Begins the page of a queue at DOORBELL_BASE. A host's write to all bytes of a field is a write of
# the register besides; of other bytes it is a write to memory alone.
DOORBELL_LINE = Record(
    "<H3HH3H",
    16,
    {
        "sq_tail": 0,
        "reserved": 2,
        "cq_head": 8,
        "reserved2": 10,
    },
)

# First bytes of a pool, and again at POOL_HEADER_COPY_AT. Written once, by whoever creates it.
# Without layers it is a pool of objects only.
POOL_HEADER = Record(
    "<IIQQQQQQQQQQIIIIIHHHHBBB5BI",
    128,
    {
        "magic": 0,
        "version": 4,
        "total_bytes": 8,
        "sequences_at": 16,
        "slabs_at": 24,
        "rings_at": 32,
        "lists_at": 40,
        "staging_at": 48,
        "data_at": 56,
        "namespaces_at": 64,
        "objects_at": 72,
        "seed": 80,
        "max_namespaces": 88,
        "max_objects": 92,
        "max_sequences": 96,
        "slab_bytes": 100,
        "slabs": 104,
        "layers": 108,
        "kv_heads": 110,
        "head_dim": 112,
        "value_dim": 114,
        "dtype": 116,
        "k_form": 117,
        "v_form": 118,
        "reserved": 119,
        "crc": 124,
    },
)

# One sequence, kept twice: a copy whose checksum is wrong does not count, and of two whole copies
# the first is right. No whole copy means FREE. A dropped sequence stays while forks share its
# pages.
SEQUENCE_RECORD = Record(
    "<IIQQII",
    32,
    {
        "state": 0,
        "crc": 4,
        "sequence_id": 8,
        "parent_id": 16,
        "fork_tokens": 24,
        "reserved": 28,
    },
)

# What a slab is cut into, twice: a copy whose checksum is wrong does not count. The first copy is
# written first.
SLAB_RECORD = Record(
    "<IIII",
    16,
    {
        "slot_bytes": 0,
        "crc": 4,
        "copy_slot_bytes": 8,
        "copy_crc": 12,
    },
)

# Who shares keys: a tenant, and a model, dtype, layout, rank, group and salt. Its number is the
# record's place in the table, and `round` times the table's length, so that it is not given again
# until the record was used 65,536 times.
NAMESPACE_RECORD = Record(
    "<IIHHI32B208B",
    256,
    {
        "state": 0,
        "crc": 4,
        "tenant": 8,
        "round": 10,
        "text_bytes": 12,
        "digest": 16,
        "text": 48,
    },
)

# A run of grains.
OBJECT_EXTENT = Record(
    "<II",
    8,
    {
        "first_grain": 0,
        "grains": 4,
    },
)

# What one part of a sealed object takes to be opened, beside the tenant's key: XAES-256-GCM. It
# authenticates the namespace's digest, the record's `key`, `key_bytes`, `parts` and `bytes`, and
# the part's number (32 bits).
OBJECT_SEAL = Record(
    "<24B16BII",
    48,
    {
        "nonce": 0,
        "tag": 24,
        "crc": 40,
        "reserved": 44,
    },
)

# One object. The payload is durable before the record, and the record before its state; a free
# record is any whose state is FREE.
OBJECT_RECORD = Record(
    "<IIQII32BIBBHQIIHHI5I5I",
    128,
    {
        "state": 0,
        "crc": 4,
        "generation": 8,
        "namespace_number": 16,
        "bytes": 20,
        "key": 24,
        "payload_crc": 56,
        "key_bytes": 60,
        "flags": 61,
        "extents": 62,
        "parent": 64,
        "created_s": 72,
        "expires_s": 76,
        "parts": 80,
        "tenant": 82,
        "grains": 84,
        "extent_first": 88,
        "extent_grains": 108,
    },
)

# First bytes of a shared region. Written once, by whoever creates it.
SHARE_HEADER = Record(
    "<IIQQIIIHHHH4II",
    64,
    {
        "magic": 0,
        "version": 4,
        "total_bytes": 8,
        "extents_at": 16,
        "extents": 24,
        "extent_bytes": 28,
        "log_entries": 32,
        "hosts": 36,
        "leases": 38,
        "messages": 40,
        "reserved": 42,
        "reserved2": 44,
        "crc": 60,
    },
)

# What a host says of itself and of its log. Two copies, written in turn, so that one is always
# whole; the larger heartbeat counts.
SHARE_HOST_LINE = Record(
    "<IIQQQQ5II",
    64,
    {
        "epoch": 0,
        "free_extents": 4,
        "heartbeat": 8,
        "head": 16,
        "tail": 24,
        "view_revision": 32,
        "reserved": 40,
        "crc": 60,
    },
)

# One entry of a host's log. The first publisher's host, epoch and number name an object for good,
# whoever owns it later.
SHARE_ENTRY = Record(
    "<QIBBHQQQIIIIII",
    64,
    {
        "number": 0,
        "epoch": 8,
        "kind": 12,
        "reserved": 13,
        "host": 14,
        "key_low": 16,
        "key_high": 24,
        "origin_number": 32,
        "origin_epoch": 40,
        "first_extent": 44,
        "length": 48,
        "payload_crc": 52,
        "version": 56,
        "crc": 60,
    },
)

# What one host has taken of another's log and mailbox. Reads of anything that the log ended up to
# here have ended too, but for those in the lease table.
SHARE_ACK = Record(
    "<IIQQ9II",
    64,
    {
        "reader_epoch": 0,
        "owner_epoch": 4,
        "log_number": 8,
        "messages_taken": 16,
        "reserved": 24,
        "crc": 60,
    },
)

# Extents that a host still reads although their object has ended.
SHARE_LEASE = Record(
    "<III12II",
    64,
    {
        "epoch": 0,
        "first_extent": 4,
        "extents": 8,
        "reserved": 12,
        "crc": 60,
    },
)

# One message from one host to another.
SHARE_MESSAGE = Record(
    "<QIIQIHBBIIII3II",
    64,
    {
        "number": 0,
        "from_epoch": 8,
        "to_epoch": 12,
        "origin_number": 16,
        "origin_epoch": 24,
        "origin_host": 28,
        "kind": 30,
        "reserved": 31,
        "version": 32,
        "first_extent": 36,
        "length": 40,
        "payload_crc": 44,
        "reserved2": 48,
        "crc": 60,
    },
)

# Opens a connection.
DAEMON_HELLO = Record(
    "<IIIIQ5Q",
    64,
    {
        "magic": 0,
        "message": 4,
        "version": 8,
        "reserved": 12,
        "data_bytes": 16,
        "reserved2": 24,
    },
)

# Answers a hello. With status OK it carries three descriptors: the window, a memfd that cannot
# change its size; the end of a pipe that the client writes a byte to when the daemon sleeps; and
# the end of one that it reads when it sleeps itself.
DAEMON_WELCOME = Record(
    "<IIIB3BQQQQQQQ7Q384B",
    512,
    {
        "magic": 0,
        "message": 4,
        "version": 8,
        "status": 12,
        "reserved": 13,
        "window_bytes": 16,
        "submissions_at": 24,
        "completions_at": 32,
        "requests_at": 40,
        "request_area_bytes": 48,
        "data_at": 56,
        "data_bytes": 64,
        "reserved2": 72,
        "reason": 128,
    },
)

# REGISTER (with one descriptor), UNREGISTER, and the daemon's REPLY to them.
DAEMON_REGION = Record(
    "<IIIB3BQQ4Q",
    64,
    {
        "magic": 0,
        "message": 4,
        "region": 8,
        "status": 12,
        "reserved": 13,
        "offset": 16,
        "bytes": 24,
        "reserved2": 32,
    },
)

# First bytes of a window; one cache line for each way.
DAEMON_RING_STATE = Record(
    "<I15III14II15I",
    192,
    {
        "submission_tail": 0,
        "reserved": 4,
        "completion_head": 64,
        "client_sleeps": 68,
        "reserved2": 72,
        "daemon_sleeps": 128,
        "reserved3": 132,
    },
)

# One request. Keys, segments and texts stand in the request area, and results go there; a request
# and its result are the daemon's until the completion.
DAEMON_SUBMISSION = Record(
    "<BBHIQIIIIIIIIQQ",
    64,
    {
        "operation": 0,
        "flags": 1,
        "parts": 2,
        "number": 4,
        "tag": 8,
        "request_at": 16,
        "request_bytes": 20,
        "result_at": 24,
        "result_bytes": 28,
        "items": 32,
        "parent_at": 36,
        "parent_bytes": 40,
        "object_bytes": 44,
        "argument": 48,
        "reserved2": 56,
    },
)

# The answer to one submission. The daemon writes the first 64 bits last; a new entry is one whose
# `phase` equals the ring's current phase (1 in the first round, then alternating).
DAEMON_COMPLETION = Record(
    "<BBHIQQQ",
    32,
    {
        "phase": 0,
        "status": 1,
        "reserved": 2,
        "count": 4,
        "tag": 8,
        "value": 16,
        "reserved2": 24,
    },
)

# One object of a job. Offsets count from the start of the request.
DAEMON_ITEM = Record(
    "<IIIIHHB3BQ",
    32,
    {
        "key_at": 0,
        "key_bytes": 4,
        "first_segment": 8,
        "segments": 12,
        "first_part": 16,
        "part_count": 18,
        "key_is_digest": 20,
        "reserved": 21,
        "generation": 24,
    },
)

# A run of bytes in a region.
DAEMON_SEGMENT = Record(
    "<QII",
    16,
    {
        "offset": 0,
        "bytes": 8,
        "region": 12,
    },
)

# A key in a request without segments.
DAEMON_KEY = Record(
    "<II",
    8,
    {
        "key_at": 0,
        "key_bytes": 4,
    },
)

# Names a namespace. The texts follow, one after the other: model, dtype, layout, salt.
DAEMON_NAMESPACE = Record(
    "<HHIIIIIII",
    32,
    {
        "tenant": 0,
        "reserved": 2,
        "rank": 4,
        "group": 8,
        "model_bytes": 12,
        "dtype_bytes": 16,
        "layout_bytes": 20,
        "salt_bytes": 24,
        "reserved2": 28,
    },
)

# A namespace, as its record tells it.
DAEMON_NAMESPACE_INFO = Record(
    "<IHHIIII32B1024B",
    1080,
    {
        "number": 0,
        "tenant": 4,
        "reserved": 6,
        "text_bytes": 8,
        "users": 12,
        "objects": 16,
        "reserved2": 20,
        "digest": 24,
        "text": 56,
    },
)

# An object, as its record tells it.
DAEMON_OBJECT_INFO = Record(
    "<IIIHHQIIHBBB3B32BQ",
    80,
    {
        "number": 0,
        "namespace_number": 4,
        "bytes": 8,
        "tenant": 12,
        "parts": 14,
        "generation": 16,
        "created_s": 24,
        "expires_s": 28,
        "extents": 32,
        "key_bytes": 34,
        "key_is_digest": 35,
        "leased": 36,
        "reserved": 37,
        "key": 40,
        "reserved2": 72,
    },
)

# A change of what is there.
DAEMON_EVENT = Record(
    "<BBBBIII32B",
    48,
    {
        "kind": 0,
        "key_bytes": 1,
        "key_is_digest": 2,
        "tier": 3,
        "namespace_number": 4,
        "bytes": 8,
        "reserved2": 12,
        "key": 16,
    },
)

# What a step of VERIFY found.
DAEMON_VERIFY_PROGRESS = Record(
    "<IIQQQ",
    32,
    {
        "next": 0,
        "reserved": 4,
        "objects": 8,
        "bytes": 16,
        "damaged": 24,
    },
)

# What a tenant holds, and what its clients have done since the daemon began.
DAEMON_TENANT_INFO = Record(
    "<HHIQQQQQQQQ32B3Q",
    128,
    {
        "number": 0,
        "reserved": 2,
        "clients": 4,
        "used_bytes": 8,
        "quota_bytes": 16,
        "sets": 24,
        "set_bytes": 32,
        "hits": 40,
        "get_bytes": 48,
        "misses": 56,
        "denials": 64,
        "name": 72,
        "reserved2": 104,
    },
)

# A client that is connected.
DAEMON_CLIENT_INFO = Record(
    "<IIHHIIIQQQ2Q",
    64,
    {
        "process_id": 0,
        "user_id": 4,
        "tenant": 8,
        "reserved": 10,
        "leases": 12,
        "queued_jobs": 16,
        "regions": 20,
        "requests": 24,
        "copied_bytes": 32,
        "connected_s": 40,
        "reserved2": 48,
    },
)

# Counters of the whole store, as the library's ObjectStoreStats explains them.
DAEMON_STORE_STATS = Record(
    "<QQQQQQQQQQQQQQQQQQQQQQQQQQ",
    208,
    {
        "total_bytes": 0,
        "used_bytes": 8,
        "object_bytes": 16,
        "objects": 24,
        "namespaces": 32,
        "leases": 40,
        "sets": 48,
        "set_bytes": 56,
        "hits": 64,
        "get_bytes": 72,
        "misses": 80,
        "evictions": 88,
        "expirations": 96,
        "corruptions": 104,
        "recovered": 112,
        "torn": 120,
        "moved": 128,
        "quarantined": 136,
        "demotions": 144,
        "promotions": 152,
        "slab_bytes": 160,
        "scrubbed_bytes": 168,
        "clients": 176,
        "max_objects": 184,
        "max_namespaces": 192,
        "reserved": 200,
    },
)

# HELLO, CHALLENGE, PROOF and WELCOME.
REMOTE_HELLO = Record(
    "<IIIB3BQQ32B32B384B4Q",
    512,
    {
        "magic": 0,
        "kind": 4,
        "version": 8,
        "status": 12,
        "reserved": 13,
        "request_area_bytes": 16,
        "data_bytes": 24,
        "nonce": 32,
        "proof": 64,
        "reason": 96,
        "reserved2": 480,
    },
)

# Opens the header of every message after the first four.
REMOTE_MESSAGE = Record(
    "<II32BQIIQ",
    64,
    {
        "magic": 0,
        "kind": 4,
        "session": 8,
        "number": 40,
        "runs": 48,
        "checksum": 52,
        "reserved": 56,
    },
)

# What the firmware shares with the logic around its processor. Who wants something fills it in,
# then counts up; who did it writes down the same count.
FIRMWARE_SHARE = Record(
    "<IIQQQIIHHIIIQIIIIIIIIQIIQ64B2048B",
    2232,
    {
        "magic": 0,
        "temperature_celsius": 4,
        "memory_bytes": 8,
        "serial": 16,
        "dynamic_bytes": 24,
        "request": 32,
        "answer": 36,
        "opcode": 40,
        "status": 42,
        "payload_bytes": 44,
        "errors": 48,
        "errors_taken": 52,
        "error_address": 56,
        "error_corrected": 64,
        "interrupts": 68,
        "interrupt_message": 72,
        "operation": 76,
        "operations": 80,
        "operations_done": 84,
        "operation_failed": 88,
        "operation_bytes": 92,
        "operation_at": 96,
        "event_logs": 104,
        "background_runs": 108,
        "background": 112,
        "line": 120,
        "payload": 184,
    },
)

# What the firmware's last exception was, kept over resets of the core: the vendor's debug log.
FIRMWARE_PANIC = Record(
    "<IIIIIIII",
    32,
    {
        "panics": 0,
        "starts": 4,
        "cause": 8,
        "address": 12,
        "value": 16,
        "return_address": 20,
        "stack_pointer": 24,
        "reserved": 28,
    },
)

# What a user of the card may have, of all its files together. The driver holds users to it.
CARD_TENANT = Record(
    "<IHBBQ",
    16,
    {
        "owner": 0,
        "queues": 4,
        "weight": 6,
        "kind": 7,
        "window_bytes": 8,
    },
)

# What the loader tells the firmware that it starts.
FIRMWARE_BOOT = Record(
    "<IIII16B",
    32,
    {
        "slot": 0,
        "staged": 4,
        "rolled_back": 8,
        "has_flash": 12,
        "reserved": 16,
    },
)

# An image of the firmware, as files and slots begin with; the image itself follows. The signature
# is Monocypher's EdDSA over all before it: the curve and the equation of Ed25519, with BLAKE2b in
# the place of SHA-512.
FIRMWARE_IMAGE = Record(
    "<II16B40B64B64B",
    192,
    {
        "magic": 0,
        "bytes": 4,
        "revision": 8,
        "reserved": 24,
        "digest": 64,
        "signature": 128,
    },
)

# Which image starts. The newer of two holds that is whole; the older one's block is erased to write
# the next.
BOOT_RECORD = Record(
    "<IIIIII8B32B",
    64,
    {
        "magic": 0,
        "generation": 4,
        "slot": 8,
        "trusted": 12,
        "tries": 16,
        "rolled_back": 20,
        "reserved": 24,
        "digest": 32,
    },
)

# How the firmware is to count by a monitor.
HOTNESS_SETTING = Record(
    "<BBHHH",
    8,
    {
        "enabled": 0,
        "unit_log2": 1,
        "epoch_ms": 2,
        "units": 4,
        "reserved": 6,
    },
)

# What has become of it.
HOTNESS_STATUS = Record(
    "<B3BI",
    8,
    {
        "state": 0,
        "reserved": 1,
        "threshold": 4,
    },
)

# Hot units of the last whole epoch, in the order in which they came to the threshold: mostly the
# hottest first.
HOTNESS_LIST = Record(
    "<BBHIIHHB7BQ64Q",
    544,
    {
        "state": 0,
        "unit_log2": 1,
        "epoch_ms": 2,
        "threshold": 4,
        "epochs": 8,
        "listed": 12,
        "units": 14,
        "has_lost": 16,
        "reserved": 17,
        "end_ns": 24,
        "addresses": 32,
    },
)

# Begins the shared memory of an emulated function. The driver fills in what it wants, then counts
# `request` up; the device answers, then writes the same count to `answer`.
CARD_BRIDGE = Record(
    "<IIQQIIB7BQQQ",
    64,
    {
        "magic": 0,
        "version": 4,
        "serial": 8,
        "heartbeat": 16,
        "request": 24,
        "answer": 28,
        "operation": 32,
        "reserved": 33,
        "address": 40,
        "value": 48,
        "bytes": 56,
    },
)

# A card as its driver sees it.
CARD_INFO = Record(
    "<QQQQQQQHHB3B",
    64,
    {
        "serial": 0,
        "features": 8,
        "limits": 16,
        "codecs": 24,
        "tick_hz": 32,
        "memory_bytes": 40,
        "free_bytes": 48,
        "abi_major": 56,
        "abi_minor": 58,
        "free_queues": 60,
        "reserved": 61,
    },
)

# A file's part of device memory. A new one reads as zeros.
CARD_WINDOW = Record(
    "<QII32B",
    48,
    {
        "bytes": 0,
        "flags": 8,
        "reserved": 12,
        "name": 16,
    },
)

# A queue of a file. Addresses count from the start of the file's window.
CARD_QUEUE = Record(
    "<IIQQQQIHHB7B",
    56,
    {
        "index": 0,
        "ring_entries": 4,
        "sq_base": 8,
        "cq_base": 16,
        "window_base": 24,
        "window_bytes": 32,
        "coalesce_ticks": 40,
        "coalesce_completions": 44,
        "tenant": 46,
        "weight": 48,
        "reserved": 49,
    },
)

# What a queue of a file has done.
CARD_QUEUE_STATE = Record(
    "<IIQQQQQQQQQ",
    80,
    {
        "index": 0,
        "reserved": 4,
        "status": 8,
        "commands": 16,
        "stream_bursts": 24,
        "refine_bursts": 32,
        "exact_bursts": 40,
        "value_bursts": 48,
        "written_bursts": 56,
        "busy_ticks": 64,
        "interrupts": 72,
    },
)

# Names a queue of a file.
CARD_QUEUE_INDEX = Record(
    "<II",
    8,
    {
        "index": 0,
        "reserved": 4,
    },
)

# Sleeping until something has completed.
CARD_WAIT = Record(
    "<QQ",
    16,
    {
        "epoch": 0,
        "timeout_ns": 8,
    },
)

# An eventfd for completions of a file's queues.
CARD_EVENTFD = Record(
    "<iI",
    8,
    {
        "fd": 0,
        "reserved": 4,
    },
)

# A command of the firmware's mailbox.
CARD_MAILBOX = Record(
    "<HHIIIQ",
    24,
    {
        "opcode": 0,
        "status": 2,
        "payload_bytes": 4,
        "room_bytes": 8,
        "reserved": 12,
        "payload": 16,
    },
)

# An event of the perf PMU `nearkvN_hotness`, as `config`, `config1` and `config2`: codes are those
# of a CHMU (CXL specification). Its AUX area takes entries of the monitor's hot list as they are, 8
# bytes each: the unit's number above a count of `caps/counter_bits` bits.
CARD_HOTNESS = Record(
    "<BBBBBBBBIHHII",
    24,
    {
        "monitor": 0,
        "track": 1,
        "unit_log2": 2,
        "down_sampling": 3,
        "mode": 4,
        "randomize": 5,
        "epoch_scale": 6,
        "reserved": 7,
        "threshold": 8,
        "epoch_value": 12,
        "reserved_2": 14,
        "first_block": 16,
        "blocks": 20,
    },
)

# Registers: byte offsets; 64-bit access only.
# [ro] Read first: another value is another device.
REG_ID = 0x0
# [ro] Read second: a library opens a device of the same major number only.
REG_ABI = 0x8
REG_ABI_MAJOR = RegisterField(0, 16)
REG_ABI_MINOR = RegisterField(16, 16)
# [ro] What the device offers.
REG_FEATURES = 0x10
# [ro] Size of device memory that windows may lie in.
REG_MEMORY_BYTES = 0x18
# [ro] This device's limits, at or below the contract's. A command beyond one is BAD_FIELD, detail =
# offset of the field.
REG_LIMITS = 0x20
REG_LIMITS_QUEUES = RegisterField(0, 8)
REG_LIMITS_GROUP = RegisterField(8, 8)
REG_LIMITS_HEAD_DIM = RegisterField(16, 16)
REG_LIMITS_TOP_K = RegisterField(32, 16)
REG_LIMITS_TOKENS_LOG2 = RegisterField(48, 8)
# [ro] Ticks per second in completions; 0 without feature TICKS.
REG_TICK_HZ = 0x28
# [rw] Device control.
REG_CONTROL = 0x30
REG_CONTROL_RESET = RegisterField(0, 1)
# [ro] Health.
REG_DEVICE_STATUS = 0x38
REG_DEVICE_STATUS_READY = RegisterField(0, 1)
REG_DEVICE_STATUS_FATAL = RegisterField(1, 1)
# [ro] Ticks since power-up; 0 without feature TICKS.
REG_TICK_COUNT = 0x40
# [rw] What asks for an interrupt: bit n drives line n unless INTERRUPT_MASK has it. Writing 1 puts
# a bit back to 0, unless its cause comes again in that cycle; CONTROL.RESET all.
REG_INTERRUPT_STATUS = 0x48
REG_INTERRUPT_STATUS_HOST_HOTNESS = RegisterField(0, 1)
REG_INTERRUPT_STATUS_NEAR_HOTNESS = RegisterField(1, 1)
REG_INTERRUPT_STATUS_ERRORS = RegisterField(2, 1)
REG_INTERRUPT_STATUS_QUEUES = RegisterField(3, 16)
# [rw] 1: the bit of INTERRUPT_STATUS does not drive its line.
REG_INTERRUPT_MASK = 0x50
REG_INTERRUPT_MASK_HOST_HOTNESS = RegisterField(0, 1)
REG_INTERRUPT_MASK_NEAR_HOTNESS = RegisterField(1, 1)
REG_INTERRUPT_MASK_ERRORS = RegisterField(2, 1)
REG_INTERRUPT_MASK_QUEUES = RegisterField(3, 16)
# [ro] Log of commands that ended with a status other than OK; CONTROL.RESET empties it.
REG_ERROR_STATE = 0x58
REG_ERROR_STATE_TAIL = RegisterField(0, 16)
REG_ERROR_STATE_LOST = RegisterField(16, 32)
# [rw] How far software has read the log.
REG_ERROR_HEAD = 0x60
REG_ERROR_HEAD_COUNT = RegisterField(0, 16)
# [rw] Who goes first where the host's accesses and near-data's meet.
REG_INLINE_CONTROL = 0x68
REG_INLINE_CONTROL_CUSTOM = RegisterField(0, 1)
REG_INLINE_CONTROL_SHARE = RegisterField(1, 4)
REG_INLINE_CONTROL_AGE_CYCLES = RegisterField(5, 10)
# [rw] Depth of memory's queues, in accesses; more than 1,023 is no limit.
REG_INLINE_LIMITS = 0x70
REG_INLINE_LIMITS_NEAR_LEAST = RegisterField(0, 16)
REG_INLINE_LIMITS_READS = RegisterField(16, 16)
REG_INLINE_LIMITS_WRITES = RegisterField(32, 16)
# [rw] Accesses in flight from which on DevLoad says more; more than 1,023 count as that.
REG_INLINE_LOAD = 0x78
REG_INLINE_LOAD_OPTIMAL = RegisterField(0, 16)
REG_INLINE_LOAD_OVERLOAD = RegisterField(16, 16)
# [rw] First of pages of device memory, DOORBELL_STRIDE_BYTES each, one a queue; a multiple of
# BURST_BYTES. A page begins with a `doorbell_line`.
REG_DOORBELL_BASE = 0x80
# [rw] Pages that hold doorbells.
REG_DOORBELL_ENABLE = 0x88
REG_DOORBELL_ENABLE_QUEUES = RegisterField(0, 16)
# [ro] What TRANSCODE takes. Another codec is UNSUPPORTED: wanted of the command, detail 0; found in
# a page, detail = the entry's index.
REG_CODECS = 0x90
REG_CODECS_BUILT = RegisterField(0, 16)
REG_CODECS_READ = RegisterField(16, 16)
# [ro] An entry of the error log. Still what TAIL announced if TAIL, read again, is not more than
# ERROR_ENTRIES ahead of it.
REG_ERROR_ENTRY = RegisterArray(0x100, 0x10, ERROR_ENTRIES)
REG_ERROR_ENTRY_TAG = RegisterField(0, 16)
REG_ERROR_ENTRY_TENANT = RegisterField(16, 16)
REG_ERROR_ENTRY_QUEUE_INDEX = RegisterField(32, 8)
REG_ERROR_ENTRY_OPCODE = RegisterField(40, 8)
REG_ERROR_ENTRY_STATUS = RegisterField(48, 8)
# [ro] Its completion's `detail`.
REG_ERROR_DETAIL = RegisterArray(0x108, 0x10, ERROR_ENTRIES)
# [rw] Submission ring in device memory; 64-byte aligned, zeroed by the host. Read when the queue is
# enabled.
REG_SQ_BASE = RegisterArray(0x1000, 0x80, MAX_QUEUES)
# [rw] Completion ring in device memory; 64-byte aligned, zeroed by the host.
REG_CQ_BASE = RegisterArray(0x1008, 0x80, MAX_QUEUES)
# [rw] Entries of both rings, a power of two.
REG_RING_ENTRIES = RegisterArray(0x1010, 0x80, MAX_QUEUES)
# [rw] Queue control. A queue's commands run in order, one at a time, and each finds what those
# before it wrote. Between queues there is no order: their commands may run at the same time. Memory
# has all that a command wrote when it completes: who needs that, or is to overwrite or erase what a
# command of another queue reads or writes, waits for its completion.
REG_QUEUE_CONTROL = RegisterArray(0x1018, 0x80, MAX_QUEUES)
REG_QUEUE_CONTROL_ENABLE = RegisterField(0, 1)
# [rw] Submission doorbell: free-running count of commands written, modulo 2^16. Each is taken once
# its slot has the ring's phase (slot_flag).
REG_SQ_TAIL = RegisterArray(0x1020, 0x80, MAX_QUEUES)
# [rw] Free-running count of completions consumed, modulo 2^16; the device never overwrites an
# unread one.
REG_CQ_HEAD = RegisterArray(0x1028, 0x80, MAX_QUEUES)
# [rw] First byte of device memory that the queue's commands may touch, a multiple of
# PAGE_GRAIN_BYTES; address 0 of the window.
REG_WINDOW_BASE = RegisterArray(0x1030, 0x80, MAX_QUEUES)
# [rw] Size of the window.
REG_WINDOW_BYTES = RegisterArray(0x1038, 0x80, MAX_QUEUES)
# [rw] Tenant number written into page headers; a page of another tenant is BAD_PAGE.
REG_TENANT = RegisterArray(0x1040, 0x80, MAX_QUEUES)
REG_TENANT_NUMBER = RegisterField(0, 16)
# [ro] Queue state.
REG_QUEUE_STATUS = RegisterArray(0x1048, 0x80, MAX_QUEUES)
REG_QUEUE_STATUS_RUNNING = RegisterField(0, 1)
REG_QUEUE_STATUS_REFUSED = RegisterField(1, 1)
# [rw] The queue's share of the device against those of others that have commands too, in bursts
# moved.
REG_WEIGHT = RegisterArray(0x1050, 0x80, MAX_QUEUES)
REG_WEIGHT_SHARE = RegisterField(0, 4)
# [rw] When completions ask for an interrupt: when so many wait, or the oldest has waited so long.
# With either 0, each at once.
REG_COALESCE = RegisterArray(0x1058, 0x80, MAX_QUEUES)
REG_COALESCE_COMPLETIONS = RegisterField(0, 16)
REG_COALESCE_WAIT_TICKS = RegisterField(16, 32)
# [ro] Commands that ended, other than by CONTROL.RESET, which puts all TOTAL registers back to 0.
# They change a few ticks after the completion is written.
REG_TOTAL_COMMANDS = RegisterArray(0x1800, 0x80, MAX_QUEUES)
# [ro] Sum of `stream_bursts` of completions.
REG_TOTAL_STREAM_BURSTS = RegisterArray(0x1808, 0x80, MAX_QUEUES)
# [ro] Sum of `refine_bursts`.
REG_TOTAL_REFINE_BURSTS = RegisterArray(0x1810, 0x80, MAX_QUEUES)
# [ro] Sum of `exact_bursts`.
REG_TOTAL_EXACT_BURSTS = RegisterArray(0x1818, 0x80, MAX_QUEUES)
# [ro] Sum of `value_bursts`.
REG_TOTAL_VALUE_BURSTS = RegisterArray(0x1820, 0x80, MAX_QUEUES)
# [ro] Bursts that commands wrote, other than completions.
REG_TOTAL_WRITTEN_BURSTS = RegisterArray(0x1828, 0x80, MAX_QUEUES)
# [ro] With a command of the queue in flight. Of these, each counted once, by the first that holds:
REG_TOTAL_BUSY_TICKS = RegisterArray(0x1830, 0x80, MAX_QUEUES)
# [ro] a read was refused by the memory port,
REG_TOTAL_READ_REFUSED_TICKS = RegisterArray(0x1838, 0x80, MAX_QUEUES)
# [ro] a write was,
REG_TOTAL_WRITE_REFUSED_TICKS = RegisterArray(0x1840, 0x80, MAX_QUEUES)
# [ro] reads or writes were under way, and neither was one asked for nor answered.
REG_TOTAL_MEMORY_WAIT_TICKS = RegisterArray(0x1848, 0x80, MAX_QUEUES)
# [rw] Words of a CHMU register block of the CXL specification: it counts the host's accesses.
REG_HOST_HOTNESS = RegisterArray(0x10000, 0x8, HOTNESS_WORDS)
# [rw] The same for near-data: it counts what commands read, in runs of up to 16 bursts within 4
# KiB.
REG_NEAR_HOTNESS = RegisterArray(0x20000, 0x8, HOTNESS_WORDS)
REG_MAP_BYTES = 0x24000


class PageArray(IntEnum):
    """The arrays of a page, in order."""

    K_EXPONENTS = 0
    K_ROWS = 1
    K_EXCEPTIONS = 2
    KEY_SCALES = 3
    V_EXPONENTS = 4
    V_ROWS = 5
    V_EXCEPTIONS = 6
    CODE_SUMMARY = 7
    K_SIGNS = 8
    K_CODES = 9
    V_CODES = 10
    K_GAINS = 11


@dataclass(frozen=True)
class PageShape:
    """The fields of a page header that decide its layout."""

    k_form: int
    v_form: int
    dtype: int
    flags: int
    head_dim: int
    value_dim: int


@dataclass(frozen=True)
class PageLayout:
    """Bytes from the page's start and sizes by PageArray; an absent array has 0 bytes."""

    offset: tuple[int, ...]
    bytes: tuple[int, ...]
    total_bytes: int


def element_bytes(dtype: int) -> int:
    """Bytes of one element; 0 for an unknown type."""
    sizes: dict[int, int] = {
        Dtype.BF16: 2,
        Dtype.FP16: 2,
        Dtype.FP32: 4,
        Dtype.FP8_E4M3: 1,
        Dtype.FP8_E5M2: 1,
        Dtype.INT8: 1,
    }
    return sizes.get(dtype, 0)


def row_bytes(form: int, dtype: int, dim: int) -> int:
    """Bytes of one row as a page stores it; 0 for an unknown form."""
    if form == RowForm.RAW:
        return dim * element_bytes(dtype)
    if form == RowForm.DELTA4:
        return dim + dim // 2
    if form == RowForm.NONE:
        return 0
    return 0


def page_layout(shape: PageShape) -> PageLayout:
    """Any shape gives a layout; whether it makes sense is not judged."""
    head_dim, value_dim = shape.head_dim, shape.value_dim
    k_row_bytes = row_bytes(shape.k_form, shape.dtype, head_dim)
    v_row_bytes = row_bytes(shape.v_form, shape.dtype, value_dim)
    sizes = (
        head_dim if shape.k_form == RowForm.DELTA4 else 0,  # K_EXPONENTS
        PAGE_TOKENS * k_row_bytes,  # K_ROWS
        4 * EXCEPTIONS if shape.k_form == RowForm.DELTA4 else 0,  # K_EXCEPTIONS
        4 * PAGE_TOKENS if shape.flags & PageFlag.KEY_SCALES else 0,  # KEY_SCALES
        value_dim if shape.v_form == RowForm.DELTA4 else 0,  # V_EXPONENTS
        PAGE_TOKENS * v_row_bytes,  # V_ROWS
        4 * EXCEPTIONS if shape.v_form == RowForm.DELTA4 else 0,  # V_EXCEPTIONS
        PAGE_TOKENS + head_dim + value_dim if shape.flags & PageFlag.CODES else 0,  # CODE_SUMMARY
        PAGE_TOKENS // 8 * head_dim if shape.flags & PageFlag.CODES else 0,  # K_SIGNS
        3 * PAGE_TOKENS // 8 * head_dim if shape.flags & PageFlag.CODES else 0,  # K_CODES
        3 * PAGE_TOKENS // 8 * value_dim if shape.flags & PageFlag.CODES else 0,  # V_CODES
        head_dim if shape.flags & PageFlag.CODES else 0,  # K_GAINS
    )
    offsets = []
    end = PAGE_HEADER.size_bytes
    for size in sizes:
        offsets.append(end)
        end += (size + BURST_BYTES - 1) // BURST_BYTES * BURST_BYTES
    total_bytes = (end + PAGE_GRAIN_BYTES - 1) // PAGE_GRAIN_BYTES * PAGE_GRAIN_BYTES
    return PageLayout(tuple(offsets), sizes, total_bytes)
