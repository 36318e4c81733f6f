"""A stand-in engine for tests that need real pods and real requests, but no model: images, a target, and users."""
