"""The sharded hybrid index: plan, build, read, search, verify."""
