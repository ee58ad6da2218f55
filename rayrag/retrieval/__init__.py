"""From a question to ranked, cited chunks: `leaf` searches one shard, `root` merges, fuses and cuts."""
