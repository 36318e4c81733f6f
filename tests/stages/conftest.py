"""Settings of this room's tests."""

from hypothesis import settings

# Wall time is the machine's business: a deadline would fail tests for what runs beside them.
settings.register_profile("stages", deadline=None)
settings.load_profile("stages")
