"""Where pods of a rollout get their devices, and what stable gives up for them."""
