"""What is claimed of a network: in files, as facts for `verify`, and in its report."""
