"""From files to registered documents: `sources` finds them, `scan` reads, `ingest` decides, `registry` gives back."""
