"""Words that no name of the contract may be, because an output language keeps them for itself."""

from __future__ import annotations

import keyword

_C11 = """
    auto break case char const continue default do double else enum extern float for goto if
    inline int long register restrict return short signed sizeof static struct switch typedef
    union unsigned void volatile while _Alignas _Alignof _Atomic _Bool _Complex _Generic
    _Imaginary _Noreturn _Static_assert _Thread_local asm typeof bool true false
"""

_CXX20 = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t
    char32_t class compl concept const consteval constexpr constinit const_cast continue co_await
    co_return co_yield decltype default delete do double dynamic_cast else enum explicit export
    extern false float for friend goto if inline int long mutable namespace new noexcept not
    not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires
    return short signed sizeof static static_assert static_cast struct switch template this
    thread_local throw true try typedef typeid typename union unsigned using virtual void volatile
    wchar_t while xor xor_eq
"""

# IEEE 1800-2017, annex B.
_SYSTEMVERILOG = """
    accept_on alias always always_comb always_ff always_latch and assert assign assume automatic
    before begin bind bins binsof bit break buf bufif0 bufif1 byte case casex casez cell chandle
    checker class clocking cmos config const constraint context continue cover covergroup
    coverpoint cross deassign default defparam design disable dist do edge else end endcase
    endchecker endclass endclocking endconfig endfunction endgenerate endgroup endinterface
    endmodule endpackage endprimitive endprogram endproperty endsequence endspecify endtable
    endtask enum event eventually expect export extends extern final first_match for force foreach
    forever fork forkjoin function generate genvar global highz0 highz1 if iff ifnone ignore_bins
    illegal_bins implements implies import incdir include initial inout input inside instance int
    integer interconnect interface intersect join join_any join_none large let liblist library
    local localparam logic longint macromodule matches medium modport module nand negedge nettype
    new nexttime nmos nor noshowcancelled not notif0 notif1 null or output package packed
    parameter pmos posedge primitive priority program property protected pull0 pull1 pulldown
    pullup pulsestyle_ondetect pulsestyle_onevent pure rand randc randcase randsequence rcmos real
    realtime ref reg reject_on release repeat restrict return rnmos rpmos rtran rtranif0 rtranif1
    s_always s_eventually s_nexttime s_until s_until_with scalared sequence shortint shortreal
    showcancelled signed small soft solve specify specparam static string strong strong0 strong1
    struct super supply0 supply1 sync_accept_on sync_reject_on table tagged task this throughout
    time timeprecision timeunit tran tranif0 tranif1 tri tri0 tri1 triand trior trireg type
    typedef union unique unique0 unsigned until until_with untyped use uwire var vectored virtual
    void wait wait_order wand weak weak0 weak1 while wildcard wire with within wor xnor xor
"""

# Legal SystemVerilog, but Verilator writes C++ and SystemC and refuses them (SYMRSVDWORD).
_VERILATOR = """
    abort atomic_cancel atomic_commit atomic_noexcept bit_vector cdecl complex const_iterator
    const_reference deque far huge int8_t int16_t int32_t int64_t interrupt iterator list map
    multimap multiset near override pascal queue reference sc_clock sc_in sc_inout sc_out
    sc_signal sensitive sensitive_neg sensitive_pos set stack synchronized transaction_safe
    transaction_safe_dynamic type_info uint8_t uint16_t uint32_t uint64_t vector
"""

RESERVED: dict[str, frozenset[str]] = {
    "C": frozenset(_C11.split()),
    "C++": frozenset(_CXX20.split()),
    "SystemVerilog": frozenset(_SYSTEMVERILOG.split()),
    "Python": frozenset([*keyword.kwlist, *keyword.softkwlist]),
    "Verilator": frozenset(_VERILATOR.split()),
}


def languages_reserving(name: str) -> list[str]:
    """The languages in which the name, or its lower case, is a reserved word."""
    return [
        language for language, words in RESERVED.items() if name in words or name.lower() in words
    ]
