"""Users' traffic: which revision the front Service selects, and the shares of a candidate."""
