"""Counting: points of lattices and multisets, numbered."""
