"""From texts to vectors: the `Encoder` protocol, its lexical and neural implementations, and where models lie."""
