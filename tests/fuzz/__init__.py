"""Fuzzers: altered model files, tree JSON, integer arrays and tables, by a seed and a count.

    python -m tests.fuzz models --seed 0 --count 2000
    python -m tests.fuzz all --seed 7 --count 500

Each case must be refused with the error that is meant for it, or be read whole and work. Anything else is a failure: it
is printed with the number of its case, and `--only NUMBER` runs that case alone, with its traceback.
"""
