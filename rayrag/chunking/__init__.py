"""From a document's text to its chunks: `windows` cuts, `sentences` finds where sentences end."""
