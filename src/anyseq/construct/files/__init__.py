"""Files: a result in a folder, and for other tools."""
