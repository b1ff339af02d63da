"""One thread per test: they are small, and run beside each other."""

import torch

torch.set_num_threads(1)
