"""What `./nearkv test` runs: format and lint, then ctest, then pytest, then one summary."""
