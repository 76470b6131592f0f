"""Reach, refinement, symmetries and paths of a design."""

from anyseq.graph.arrivals import arrivals
from anyseq.graph.borders import keys_seen
from anyseq.graph.diluted import Dilution, dilution
from anyseq.graph.edges import TooManyEdges
from anyseq.graph.hearing import hears
from anyseq.graph.keys import keys_attended, keys_kept
from anyseq.graph.path import PATH_SECONDS, Path, hamiltonian_path
from anyseq.graph.reach import ANIMATION_TOKENS, PICTURE_TOKENS, Reach, connections_of, reach
from anyseq.graph.refinement import Refinement, classes_by_layer, refine
from anyseq.graph.symmetry import Symmetry, apart_after, fixing, symmetry

__all__ = [
    "ANIMATION_TOKENS",
    "PATH_SECONDS",
    "PICTURE_TOKENS",
    "Dilution",
    "Path",
    "Reach",
    "Refinement",
    "Symmetry",
    "TooManyEdges",
    "apart_after",
    "arrivals",
    "classes_by_layer",
    "connections_of",
    "dilution",
    "fixing",
    "hamiltonian_path",
    "hears",
    "keys_attended",
    "keys_kept",
    "keys_seen",
    "reach",
    "refine",
    "symmetry",
]
