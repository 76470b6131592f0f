"""What torch and transformers of these versions can do: tests of the rest are skipped.

torch.__version__ is a TorchVersion, which compares by numbers and not by letters: 2.13 comes after
2.9. The version of transformers is a plain string, and is made one here.
"""

from __future__ import annotations

import pytest
import torch
import transformers
from torch.torch_version import TorchVersion

TRANSFORMERS = TorchVersion(transformers.__version__)

COMPILES = torch.__version__ >= "2.13"
compiles = pytest.mark.skipif(not COMPILES, reason="torch.compile traces calls from torch 2.13 on")

T5_ATTENDS = TRANSFORMERS >= "5.15"
attends_by_t5 = pytest.mark.skipif(
    not T5_ATTENDS,
    reason="T5's attention goes through the AttentionInterface from transformers 5.15 on",
)

# transformers from 5.13 on does without the operator where torch does not have it.
EXPERTS_RUN = torch.__version__ >= "2.9" or TRANSFORMERS >= "5.13"
