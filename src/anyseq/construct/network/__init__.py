"""What there is to a network besides its blocks: stages, and a memory."""
