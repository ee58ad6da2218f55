"""What every encoder asks of its texts."""

from collections.abc import Sequence

from rayrag.errors import InputError


def require_unicode(texts: Sequence[str]) -> None:
    """Raise InputError naming text and character where a lone surrogate stands: it is no text, and has no UTF-8."""
    for index, text in enumerate(texts):
        if text.isascii():
            continue
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"texts[{index}]: character {error.start} is a lone surrogate; decode the text as UTF-8"
            ) from error
