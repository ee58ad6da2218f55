"""Strict, frozen records and Arrow tables: what crosses a layer, a process or a year."""
