"""Explaining: what the stages of a network did to one input, as data and as text."""
