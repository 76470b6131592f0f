"""The ground floor: argument checks, dyadic numbers, files, random numbers, measurements."""

from anyseq.base.check import (
    array_shape,
    at_least_one,
    finite,
    non_negative,
    one_of,
    positive,
    whole,
)
from anyseq.base.deadline import OutOfTime, check_time, remaining, within
from anyseq.base.dyadic import (
    EXACT_BITS,
    UNIT_ROUNDOFF,
    ZERO_WEIGHT_GAP,
    power_of_two_at_least,
    power_of_two_at_most,
)
from anyseq.base.files import check_new, json_sha256, read_folder, write_folder, write_text
from anyseq.base.html import table_html, text_html
from anyseq.base.memory import extra_bytes, has_high_water_mark
from anyseq.base.progress import Progress, silent
from anyseq.base.random import generator, seed_of, uniform
from anyseq.base.text import layers_named, layers_text, outside_brackets, rounded_down, table
from anyseq.base.threads import one_thread, share_out
from anyseq.base.timing import medians, seconds

__all__ = [
    "EXACT_BITS",
    "UNIT_ROUNDOFF",
    "ZERO_WEIGHT_GAP",
    "OutOfTime",
    "Progress",
    "array_shape",
    "at_least_one",
    "check_new",
    "check_time",
    "extra_bytes",
    "finite",
    "generator",
    "has_high_water_mark",
    "json_sha256",
    "layers_named",
    "layers_text",
    "medians",
    "non_negative",
    "one_of",
    "one_thread",
    "outside_brackets",
    "positive",
    "power_of_two_at_least",
    "power_of_two_at_most",
    "read_folder",
    "remaining",
    "rounded_down",
    "seconds",
    "seed_of",
    "share_out",
    "silent",
    "table",
    "table_html",
    "text_html",
    "uniform",
    "whole",
    "within",
    "write_folder",
    "write_text",
]
