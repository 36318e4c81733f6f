"""A forecast of where pods would find devices: pure, and no more than a forecast, since only PodScheduled decides."""
