"""Results: an Approximation, its certificate, and how it is printed."""
