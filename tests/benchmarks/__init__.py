"""Times of whole calls beside the alternatives on the same data; `python -m tests.benchmarks` prints one table."""
