"""Tables: the same function as a network, by look-up, and the mathematics of its values."""
