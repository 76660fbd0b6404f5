"""Low-order counts: what occurs together. Exact integers that merge by addition."""
