"""The verbs: `anyseq.plan`, `anyseq.approximate`, and what only they need."""
