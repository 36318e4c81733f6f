"""What the status and the conditions say: projections that decide nothing."""
