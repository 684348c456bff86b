"""Log detection with rule files: reports what was attacked, how severe it is, and which rule found it."""
