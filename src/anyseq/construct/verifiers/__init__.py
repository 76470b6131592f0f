"""Independent checks of a network against its claim, from weights and tables alone."""
