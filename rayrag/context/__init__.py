"""From results to the text a generator sees, and the citations that say where it comes from."""
