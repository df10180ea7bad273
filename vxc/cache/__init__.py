"""Files that spare compiling again: where they are, what they are named by, how they are written and read."""
