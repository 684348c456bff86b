"""The rule instantiation engine (paper §4.3): rules become boxes of cells, and covered cells become signatures in Bloom filters."""
