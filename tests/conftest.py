"""Shared settings: examples are reproducible, and a slow one is no failure."""

import torch
from hypothesis import settings

settings.register_profile("anyseq", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("anyseq")

# One thread per test worker; more would fight for the same cores.
torch.set_num_threads(1)
