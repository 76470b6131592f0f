"""The request: f, how it varies, the design and the tolerance, and what f is seen to do."""
