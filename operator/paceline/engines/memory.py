"""Remembers what was read from a text, so that reading it again costs a digest of it and no parsing.

Reading is a pure function, so remembering changes no answer. The texts themselves are not kept: their answers are a
tenth of them.
"""

import collections
import hashlib
import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

ArgumentT = TypeVar("ArgumentT", bound=Hashable)
AnswerT = TypeVar("AnswerT")


class Memory(Generic[ArgumentT, AnswerT]):
    """The newest answers of one function of a text and an argument; used by passes in threads."""

    def __init__(self, function: Callable[[str, ArgumentT], AnswerT], *, most: int) -> None:
        """Start empty; of more than ``most`` answers the one that was asked for longest ago is forgotten."""
        self._function = function
        self._most = most
        self._lock = threading.Lock()
        self._answers: collections.OrderedDict[tuple[bytes, ArgumentT], AnswerT] = collections.OrderedDict()

    def of(self, text: str, argument: ArgumentT) -> AnswerT:
        """Return what the function says of ``text``."""
        # surrogatepass: a str may hold halves of characters, which have no UTF-8 of their own.
        digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
        key = (digest, argument)
        with self._lock:
            if key in self._answers:
                self._answers.move_to_end(key)
                return self._answers[key]
        # Not under the lock: two that ask at once both read, which is only slower.
        answer = self._function(text, argument)
        with self._lock:
            self._answers[key] = answer
            if len(self._answers) > self._most:
                self._answers.popitem(last=False)
        return answer

    def __len__(self) -> int:
        """Return how many answers are kept."""
        return len(self._answers)
