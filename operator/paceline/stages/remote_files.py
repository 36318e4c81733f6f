"""A checkpoint's small files and headers where they are, over the network, by fsspec.

Only the schemes that the API admits are opened, each by its own file system and with its own credentials: a URI can
name neither a local file nor another protocol, and chains of protocols are never parsed. What a server answers to a
refused request is not repeated, since it may quote what it was given.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from paceline.api import stages
from paceline.checkpoints import files
from paceline.checkpoints.documents import UnreadableError
from paceline.stages.failures import PermanentError, TransientError

TOKEN: Final = "token"  # noqa: S105 - the name of a key, not a token
_S3_KEYS: Final = {"accessKeyId": "key", "secretAccessKey": "secret", "sessionToken": "token"}


class FileSystem(Protocol):
    """The part of an fsspec file system that reading needs."""

    def ls(self, path: str, *, detail: bool) -> Sequence[Mapping[str, Any]]:
        """Return name, size and type of what lies in a folder."""
        ...

    def cat_file(self, path: str, *, start: int | None, end: int | None) -> bytes:
        """Return bytes of a file."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """A folder of a bucket or of a hub's repository, listed once."""

    system: FileSystem
    root: str
    title: str
    """What messages call it."""
    listing: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    is_near: bool = False

    def sizes(self) -> Mapping[str, int]:
        """Return the bytes of each file.

        Raises:
            UnreadableError: when there is no such folder.
            TransientError: when it may not be read, or the server does not answer.
        """
        if not self.listing:
            entries = self._ask(lambda: self.system.ls(self.root, detail=True))
            found = {str(one["name"]).rpartition("/")[2]: one for one in entries if one.get("type") == "file"}
            self.listing.update(found)
        return {name: int(one.get("size") or 0) for name, one in self.listing.items()}

    def size(self, name: str) -> int | None:
        """Return the bytes of one file; None when it is not there."""
        return self.sizes().get(name)

    def read(self, name: str, *, at_most: int, start: int = 0) -> bytes:
        """Return part of a file; a range that ends beyond the file is cut, since not every server does it."""
        size = self.size(name)
        if size is None:
            raise UnreadableError(f"{self.title} has no file {name}")
        if start >= size:
            return b""
        end = min(start + at_most, size)
        content: bytes = self._ask(lambda: self.system.cat_file(f"{self.root}/{name}", start=start, end=end))
        return content

    def etag(self, name: str) -> str:
        """Return what tells this content of a file from another, as far as the server does."""
        self.sizes()
        return str(self.listing.get(name, {}).get("ETag", "")).strip('"')

    def _ask(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except FileNotFoundError as error:
            raise UnreadableError(f"{self.title} does not exist; correct the uri and its revision") from error
        except PermissionError as error:
            # The Secret may be corrected without an edit of the spec, so the next try may succeed.
            raise TransientError(
                f"{self.title} may not be read; name a Secret with its credentials in credentialsSecret"
            ) from error
        except Exception as error:  # noqa: BLE001 - clients raise what they like for a network that is away
            if type(error).__name__ in {"NoCredentialsError", "PartialCredentialsError"}:
                raise TransientError(
                    f"{self.title} needs credentials; name a Secret with accessKeyId and secretAccessKey in "
                    "credentialsSecret"
                ) from None
            raise TransientError(f"{self.title} cannot be read now ({type(error).__name__})") from None


def open_bucket(source: stages.TargetRef) -> Remote:
    """Return the folder of an s3:// URI."""
    import s3fs  # noqa: PLC0415 - only the trainer's image has it

    secret = read_secret(source)
    named = {option: secret[key] for key, option in _S3_KEYS.items() if key in secret}
    client = {key: secret[name] for name, key in (("region", "region_name"),) if name in secret}
    system = s3fs.S3FileSystem(
        **named, endpoint_url=secret.get("endpointUrl"), client_kwargs=client, use_listings_cache=False
    )
    return Remote(system=system, root=source.path.removeprefix("s3://").rstrip("/"), title=source.path)


def open_hub(source: stages.TargetRef) -> Remote:
    """Return a hub's repository at its revision."""
    import huggingface_hub  # noqa: PLC0415 - only the trainer's image has it

    system = huggingface_hub.HfFileSystem(token=hub_token(source))
    revision = f"@{source.revision}" if source.revision else ""
    return Remote(system=system, root=f"{source.path}{revision}", title=f"hf://{source.path}")


def hub_token(source: stages.TargetRef) -> str | None:
    """Return the token of the source's Secret; None leaves it to the pod's environment."""
    return read_secret(source).get(TOKEN)


def read_secret(source: stages.TargetRef) -> dict[str, str]:
    """Return the keys of the Secret that is mounted for a source; nothing when none is named.

    Raises:
        TransientError: when the Secret is named and is not there, or empty: it may come.
    """
    if source.credentials_path is None:
        return {}
    folder = Path(source.credentials_path)
    found = {one.name: one.read_text(encoding="utf-8").strip() for one in sorted(folder.glob("[!.]*")) if one.is_file()}
    if not found:
        raise TransientError(
            f"the Secret named in credentialsSecret for {source.path} is missing or empty; create it with the key "
            "token, or accessKeyId and secretAccessKey"
        )
    return found


def fetch(source: Remote, folder: Path, *, suffixes: tuple[str, ...], limit: int) -> None:
    """Write the files of these endings into ``folder``.

    Raises:
        PermanentError: when there is no such folder, or a file is larger than such files are.
    """
    try:
        for name, size in source.sizes().items():
            if not name.endswith(suffixes):
                continue
            if size > limit:
                raise PermanentError(f"{source.title}/{name} has {size} bytes, more than such a file can have")
            (folder / name).write_bytes(source.read(name, at_most=limit))
    except UnreadableError as error:
        raise PermanentError(str(error)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Layered:
    """Files that were fetched, and the rest where it is: the headers of weights that nobody downloads."""

    fetched: files.Files
    rest: files.Files
    is_near: bool = False

    def sizes(self) -> Mapping[str, int]:
        """Return the bytes of all files."""
        return {**self.rest.sizes(), **self.fetched.sizes()}

    def size(self, name: str) -> int | None:
        """Return the bytes of one file."""
        found = self.fetched.size(name)
        return self.rest.size(name) if found is None else found

    def read(self, name: str, *, at_most: int, start: int = 0) -> bytes:
        """Return part of a file."""
        place = self.rest if self.fetched.size(name) is None else self.fetched
        return place.read(name, at_most=at_most, start=start)
