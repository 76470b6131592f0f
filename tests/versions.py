"""What torch of this version can do: tests of the rest are skipped."""

from __future__ import annotations

import pytest
import torch

COMPILES = torch.__version__ >= "2.13"
compiles = pytest.mark.skipif(not COMPILES, reason="torch.compile traces calls from torch 2.13 on")
flexes = pytest.mark.skipif(torch.__version__ < "2.9", reason="FlexAttention needs torch 2.9")
