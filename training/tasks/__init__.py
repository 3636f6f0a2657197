"""Seeded generators of the two kinds of problems: `words.problem` and `code.problem`."""
