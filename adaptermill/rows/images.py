"""Screenshots: checked for wholeness when they come in, decoded the same way everywhere.

`check` looks at the bytes without decoding pixels where the format allows it; `decode` gives the
RGB image that a model sees.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from PIL import Image, ImageOps, UnidentifiedImageError

FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP")
_MAGIC = (b"\x89PNG", b"\xff\xd8", b"GIF8", b"RIFF", b"BM")
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PNG_METADATA = frozenset([b"eXIf", b"tEXt", b"zTXt", b"iTXt"])
# Bits, colour type, compression, filter method of 8-bit RGB and RGBA (PNG specification, 11.2.2).
_PLAIN_MODES = {b"\x08\x02\0\0": "RGB", b"\x08\x06\0\0": "RGBA"}
# Chunks that change nothing of what is said of an image, with their sizes.
_PLAIN_CHUNKS = {b"sRGB": 1, b"gAMA": 4, b"pHYs": 9}
# The second letter is small; those of animations are not private, though they look like it.
_PRIVATE_CHUNK = re.compile(rb"(?!acTL|fcTL|fdAT)[a-z][a-z][A-Z][A-Za-z]")
_ORIENTATION = 0x0112
_SWAPS_SIDES = (5, 6, 7, 8)
# Pillow's own bomb guard warns; ours refuses, by the configured limit and before decoding.
Image.MAX_IMAGE_PIXELS = None


@dataclass(frozen=True)
class ImageLimits:
    """Which images are taken: shortest side and area in pixels, longer over shorter side."""

    min_side: int = 8
    max_pixels: int = 50_000_000
    max_aspect: float = 100

    @property
    def max_file_bytes(self) -> int:
        """No image within the limits needs a larger file: four channels of 16 bits, and headers."""
        return 8 * self.max_pixels + 1_000_000


@dataclass(frozen=True)
class ImageInfo:
    """What is known of an image without its pixels; sides are those after EXIF orientation."""

    format: str
    mode: str
    width: int
    height: int
    change: str | None


class ImageProblem(Exception):
    """Why an image is not taken: a quarantine reason and a message."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def check(data: bytes, limits: ImageLimits) -> ImageInfo:
    """Describes a whole image within the limits; raises `ImageProblem` for any other."""
    if not data:
        raise ImageProblem("image_truncated", "the file is empty")
    try:
        plain = _plain_png(data)
        if plain is not None:
            _check_limits(plain.width, plain.height, limits)
            _check_png(data)
            return plain
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            _check_limits(*image.size, limits)
            _check_whole(image, data)
            return _describe(image, data)
    except ImageProblem:
        raise
    except UnidentifiedImageError:
        if data.startswith(_MAGIC):
            raise ImageProblem("image_truncated", "the file ends inside its header") from None
        taken = ", ".join(FORMATS)
        raise ImageProblem("image_not_an_image", f"no image in a format of {taken}") from None
    except Exception as error:  # decoders raise whatever broken bytes lead them to
        raise ImageProblem("image_truncated", f"the image cannot be decoded: {error}") from None


def decode(data: bytes) -> Image.Image:
    """The RGB image that a model sees.

    EXIF orientation is applied, transparency is laid on white, palettes, grey, CMYK and 16 bits
    become 8-bit RGB, and of an animation the first frame is taken.
    """
    image = Image.open(io.BytesIO(data), formats=FORMATS)
    image.seek(0)
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I"):
        # 16-bit grey: Pillow would clip at 255 instead of scaling.
        image = image.convert("I").point(lambda value: value * (1 / 257) + 0.5).convert("L")
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image)
    return image.convert("RGB")


def _describe(image: Image.Image, data: bytes) -> ImageInfo:
    width, height = image.size
    changes = []
    orientation = _exif(image, data).get(_ORIENTATION, 1)
    if orientation in range(2, 9):
        changes.append("exif")
        if orientation in _SWAPS_SIDES:
            width, height = height, width
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        changes.append("alpha")
    if image.mode in ("P", "PA"):
        changes.append("palette")
    if image.mode in ("1", "L", "LA") or image.mode.startswith("I"):
        changes.append("grey")
    if image.mode == "CMYK":
        changes.append("cmyk")
    if image.mode.startswith("I") or (image.format == "PNG" and data[24:25] == b"\x10"):
        changes.append("16bit")
    if getattr(image, "is_animated", False):
        changes.append("animated")
    return ImageInfo(image.format or "", image.mode, width, height, ",".join(changes) or None)


def _exif(image: Image.Image, data: bytes) -> Image.Exif:
    """The EXIF tags, also those that a PNG file holds behind its pixels."""
    if image.format == "PNG":
        kinds = [kind for kind, _, _ in _png_chunks(data)]
        if _PNG_METADATA.isdisjoint(kinds[kinds.index(b"IDAT") :]):
            # The PNG class's own method decodes all pixels first, to see what is behind them.
            return Image.Image.getexif(image)
    return image.getexif()


def _check_limits(width: int, height: int, limits: ImageLimits) -> None:
    shape = f"{width}x{height}"
    shorter, longer = sorted((width, height))
    if shorter < limits.min_side:
        message = f"{shape}: the shorter side is under ingest.image.min_side ({limits.min_side})"
        raise ImageProblem("image_too_small", message)
    if width * height > limits.max_pixels:
        message = f"{shape} is over ingest.image.max_pixels ({limits.max_pixels})"
        raise ImageProblem("image_too_large", message)
    if longer / shorter > limits.max_aspect:
        message = f"{shape}: longer over shorter side is over ingest.image.max_aspect"
        raise ImageProblem("image_aspect", f"{message} ({limits.max_aspect:g})")


def _check_whole(image: Image.Image, data: bytes) -> None:
    if image.format == "PNG":
        _check_png(data)
    elif image.format == "JPEG":
        _check_jpeg(data)
    else:
        if image.format == "WEBP" and int.from_bytes(data[4:8], "little") + 8 > len(data):
            raise ImageProblem("image_truncated", "the WebP file is shorter than it says")
        if image.format == "GIF" and not data.rstrip(b"\0").endswith(b";"):
            raise ImageProblem("image_truncated", "the GIF file ends before its trailer")
        image.load()


def _png_chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """(kind, start, end of its data) of every whole chunk up to IEND."""
    position = len(_PNG_SIGNATURE)
    while position + 12 <= len(data):
        length = int.from_bytes(data[position : position + 4], "big")
        kind = data[position + 4 : position + 8]
        start, end = position + 8, position + 8 + length
        position = end + 4
        if position > len(data):
            return
        yield kind, start, end
        if kind == b"IEND":
            return


def _plain_png(data: bytes) -> ImageInfo | None:
    """What is known of a PNG file as browsers write screenshots; None for any other.

    Saying so here takes a fifth of the time that Pillow takes to open the file.
    """
    if not data.startswith(_PNG_SIGNATURE + b"\0\0\0\rIHDR") or len(data) < 33:
        return None
    width, height = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    mode = _PLAIN_MODES.get(data[24:28])
    if mode is None or data[28] > 1 or 0 in (width, height):
        return None
    if zlib.crc32(data[12:29]) != int.from_bytes(data[29:33], "big"):
        return None
    kinds = [
        kind for kind, start, end in _png_chunks(data) if _PLAIN_CHUNKS.get(kind) != end - start
    ]
    others = [kind for kind in kinds if kind != b"IDAT" and not _PRIVATE_CHUNK.fullmatch(kind)]
    if others != [b"IHDR", b"IEND"]:
        return None
    return ImageInfo("PNG", mode, width, height, "alpha" if mode == "RGBA" else None)


def _check_png(data: bytes) -> None:
    """Every chunk is there with its checksum, up to IEND (PNG specification, section 5)."""
    view = memoryview(data)
    kinds = []
    for kind, start, end in _png_chunks(data):
        if zlib.crc32(view[start - 4 : end]) != int.from_bytes(view[end : end + 4], "big"):
            raise ImageProblem("image_truncated", "a PNG chunk does not match its checksum")
        kinds.append(kind)
    if b"IDAT" not in kinds or kinds[-1] != b"IEND":
        raise ImageProblem("image_truncated", "the PNG file ends before its IEND chunk")


def _check_jpeg(data: bytes) -> None:
    """The entropy-coded data is followed by an end-of-image marker (ITU T.81, annex B).

    JPEG has no checksums, so the data is decoded too: at an eighth of the size, which is quick.
    """
    position = 2
    while position + 4 <= len(data) and data[position] == 0xFF:
        marker = data[position + 1]
        if marker == 0xFF:  # fill bytes may stand before a marker
            position += 1
            continue
        position += 2 + int.from_bytes(data[position + 2 : position + 4], "big")
        if marker == 0xDA:  # start of scan: from here FF D9 can only be the end
            if data.find(b"\xff\xd9", position) < 0:
                break
            with Image.open(io.BytesIO(data), formats=("JPEG",)) as image:
                image.draft(None, (image.width // 8, image.height // 8))
                image.load()
            return
    raise ImageProblem("image_truncated", "the JPEG file ends before its end-of-image marker")
