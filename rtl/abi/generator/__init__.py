"""Turns the device contract (rtl/abi/nearkv.toml) into C, SystemVerilog, Python and Markdown."""
