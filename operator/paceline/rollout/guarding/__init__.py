"""After promotion: what users' own traffic says of the head that serves."""
