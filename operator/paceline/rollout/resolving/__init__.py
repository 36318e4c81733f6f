"""From a spec to what could serve: the head's source, what its files say, and whether all of it fits."""
