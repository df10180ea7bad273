"""The parts of `tools/bench.py`: cases, peers, timing, the record and what is made of it. Only peers and timing need a GPU's libraries.

`ending` serves other tools as well.
"""
