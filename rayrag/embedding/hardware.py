"""Which device and precision an encoder runs at, and the hardware class that names what its last bits depend on."""

import platform
from importlib.metadata import version
from typing import TYPE_CHECKING, Literal

from rayrag.errors import InputError
from rayrag.schema.embedding import Precision

if TYPE_CHECKING:
    import torch

ResolvedPrecision = Literal["fp32", "bf16", "fp16"]
Device = Literal["cpu", "cuda"]

_LIBRARIES = ("sentence-transformers", "tokenizers", "transformers")


def resolve_device(device: Literal["auto", "cpu", "cuda"]) -> Device:
    """`auto` is a GPU where torch sees one; InputError when `cuda` is asked for and there is none."""
    import torch

    if device == "cpu":
        return "cpu"
    if torch.cuda.is_available():
        return "cuda"
    if device == "cuda":
        raise InputError("device cuda: torch sees no GPU; use device cpu or auto, or install a CUDA build of torch")
    return "cpu"


def resolve_precision(precision: Precision, device: Device) -> ResolvedPrecision:
    """`auto` is bf16 where the device computes it faster than fp32 (AMX, GPUs of compute capability 8), else fp32."""
    import torch

    if precision != "auto":
        return precision
    if device == "cuda":
        return "bf16" if torch.cuda.get_device_capability()[0] >= 8 else "fp32"
    return "bf16" if has_amx() else "fp32"


def dtype_of(precision: ResolvedPrecision) -> "torch.dtype":
    """The torch type of a precision."""
    import torch

    match precision:
        case "fp32":
            return torch.float32
        case "bf16":
            return torch.bfloat16
        case "fp16":
            return torch.float16


def has_amx() -> bool:
    """Whether the CPU has matrix instructions for bf16 (Intel AMX), and torch may use them."""
    import torch

    capabilities = torch.cpu.get_capabilities()
    return torch.backends.cpu.get_cpu_capability().startswith("AVX512") and bool(capabilities.get("amx_bf16"))


def hardware_class(device: Device) -> str:
    """`cuda-sm90`, `cpu-amx`, `cpu-avx512`, `cpu-avx2`, or `cpu-` + the machine's architecture."""
    import torch

    if device == "cuda":
        major, minor = torch.cuda.get_device_capability()
        return f"cuda-sm{major}{minor}"
    if has_amx():
        return "cpu-amx"
    capability = torch.backends.cpu.get_cpu_capability()
    if capability in ("AVX2", "AVX512"):
        return f"cpu-{capability.lower()}"
    return f"cpu-{platform.machine()}"


def library_versions() -> dict[str, str]:
    """The versions of what computes a vector; torch's names its build too (`+cpu`, `+cu128`)."""
    import torch

    return {"torch": str(torch.__version__), **{library: version(library) for library in _LIBRARIES}}
