"""Log detection with rule files: what was attacked, how badly, and by which rule it was found."""
