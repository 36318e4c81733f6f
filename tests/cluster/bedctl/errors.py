"""The one error of the test bed that people should see as a sentence."""


class BedError(Exception):
    """Something that the person at the keyboard must change; the message says what is wrong and what to do."""
