"""Chunks per second: rayrag's encoder at fixed shapes against `SentenceTransformer.encode`, on Python's help topics.

Run it with `python benchmarks/encoder.py [--chunks N] [--rounds N] [--threads N] [--precisions fp32 bf16]`. Both
sides have the same model, threads and process; rounds alternate and the best of each side counts, as other work on
the machine only ever slows. The last column compares processor time, which with `--threads 1` is the fair measure on
a busy machine. The reference in bf16 is the whole model converted, which is what its users do.
"""

import argparse
import time
from collections.abc import Callable
from pydoc_data.topics import topics

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from rayrag.embedding.models import resolve_model
from rayrag.embedding.sentence_transformers import SentenceTransformerEncoder
from rayrag.schema.embedding import EncoderSettings, Precision


def chunks(count: int) -> list[str]:
    """The first `count` pieces of 800 characters of the help topics, the last piece of each topic being shorter."""
    pieces = [text[start : start + 800] for _, text in sorted(topics.items()) for start in range(0, len(text), 800)]
    return pieces[:count]


def seconds(call: Callable[[], object]) -> tuple[float, float]:
    """Wall-clock and processor time of a call."""
    start, used = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - start, time.process_time() - used


def compare(texts: list[str], precision: Precision, rounds: int, threads: int) -> None:
    ours = SentenceTransformerEncoder(EncoderSettings(precision=precision, device="cpu"), threads)
    path = resolve_model(ours.configuration.model).path
    theirs = SentenceTransformer(str(path), device="cpu", local_files_only=True)
    if precision == "bf16":
        theirs.bfloat16()

    def encode() -> "np.ndarray":
        return theirs.encode(texts, batch_size=32, normalize_embeddings=True, convert_to_numpy=True).astype(np.float32)

    cosine = float(np.min(np.sum(ours.encode(texts) * encode(), axis=1)))
    mine, reference = [], []
    for _ in range(rounds):
        mine.append(seconds(lambda: ours.encode(texts)))
        reference.append(seconds(encode))
    (my_wall, my_cpu), (their_wall, their_cpu) = (map(min, zip(*side, strict=True)) for side in (mine, reference))
    print(
        f"{precision:9} {len(texts) / my_wall:9.1f} {len(texts) / their_wall:9.1f} {their_wall / my_wall:6.2f}x "
        f"{cosine:14.7f} {their_cpu / my_cpu:9.2f}x"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--chunks", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--precisions", nargs="+", default=["fp32", "bf16"], choices=["fp32", "bf16"])
    arguments = parser.parse_args()
    texts = chunks(arguments.chunks)
    capability = torch.backends.cpu.get_cpu_capability()
    print(f"{len(texts)} chunks of up to 800 characters, {arguments.threads} threads, {capability}")
    print("precision  rayrag/s  encode/s   ratio   least cosine  CPU ratio")
    for precision in arguments.precisions:
        compare(texts, precision, arguments.rounds, arguments.threads)


if __name__ == "__main__":
    main()
