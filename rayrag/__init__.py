"""rayrag: a reproducible, sharded hybrid search index and grounded, cited retrieval, on Ray.

Importing this package does no work: import what you need from its modules.
"""

__version__ = "0.1.0"
